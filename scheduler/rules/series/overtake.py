"""Occurrences that do not wait for the run before them: it is cancelled for them, or they run at the same time.

A run is overtaken when the next occurrence after it was opened is due. Occurrences that fell due while nothing ran were
missed.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from duetime.scheduler.events import EventKind
from duetime.scheduler.records import Change
from duetime.scheduler.rules.occurrences import delay_of, newest_due, next_run
from duetime.scheduler.rules.states import TERMINAL, cancelled
from duetime.scheduler.task import Overlap, Run, State, Task
from duetime.scheduler.views import TaskRecord

MAX_RUNS_AT_ONCE = 20
"""Open runs that one series has at most; further occurrences are skipped until one of them ends."""

OVERTAKING_POLICIES = frozenset({Overlap.CANCEL_OTHER, Overlap.ALLOW_ALL})


def is_stopping(run: Run) -> bool:
    """Whether a cancel was requested for a run with its task; not where it gives way to the next occurrence."""
    return run.cancel_requested and not run.gives_way


def ends_series(run: Run) -> bool:
    """Whether a run was cancelled, or is to stop, with its task: not where it gives way to the next one."""
    return (run.cancel_requested or run.state is State.CANCELLED) and not run.gives_way


def was_cancelled(run: Run) -> bool:
    """Whether a run was cancelled with its task: not where it was done although it was to stop."""
    return run.state is State.CANCELLED and not run.gives_way


def with_overtake_time(task: Task, run: Run) -> Run:
    """Return the run with the time at which the next occurrence overtakes it, unless it was asked to stop already."""
    if run.cancel_requested or run.state in TERMINAL:
        return run
    policy = task.repeat_policy
    at = _overtaken_at(task, run) if run.current and policy and policy.overlap in OVERTAKING_POLICIES else None
    return run if at == run.overtaken_at else replace(run, overtaken_at=at)


def overtake_change(record: TaskRecord, now: datetime) -> Change | None:
    """Return the change that starts the next occurrence while the current run is open; None while it has to wait."""
    task, run = record.task, record.run
    allows = task.repeat_policy is not None and task.repeat_policy.overlap is Overlap.ALLOW_ALL
    coming = newest_due(task, run, _opened(run), now)
    if coming is None or run.cancel_requested or (allows and len(record.side_runs) + 1 >= MAX_RUNS_AT_ONCE):
        return None
    if allows:
        return Change(task, run, next_run=coming, as_side_run=True, kind=EventKind.NEXT_OCCURRENCE)
    if run.state is State.RUNNING:
        return Change(task, replace(run, cancel_requested=True), kind=EventKind.CANCEL_REQUESTED)
    left = cancelled(run, now)
    return Change(task, left, next_run=coming, kind=EventKind.CANCELLED)


def next_overtake_try(task: Task, run: Run, now: datetime) -> datetime | None:
    """Return when to try again to overtake a run that cannot be overtaken now."""
    coming = next_run(task, run, max(_opened(run), now - delay_of(task)))  # one whose time has passed starts later
    return coming.scheduled_for + delay_of(task) if coming else None


def _overtaken_at(task: Task, run: Run) -> datetime | None:
    if task.repeat is None:  # a step: its chain is looked at once it may have begun, and then at the next time
        return run.overtaken_at or run.scheduled_for
    coming = next_run(task, run, _opened(run))
    return coming.scheduled_for + delay_of(task) if coming else None


def _opened(run: Run) -> datetime:
    return run.first_ready_at or run.scheduled_for
