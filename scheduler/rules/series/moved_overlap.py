"""An occurrence that was moved past others, and those others: the overlap policy of their series acts between them.

Of two runs the one that is open holds the other up. Only an open run leaves an occurrence out: two that were missed, or
that waited for the same run, run one after the other.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from enum import StrEnum

from duetime.scheduler.rules.occurrences import next_run
from duetime.scheduler.rules.series.moved_occurrence import is_moved
from duetime.scheduler.rules.states import cancelled
from duetime.scheduler.task import Overlap, Run, State, Task
from duetime.scheduler.views import TaskRecord

_LEFT = frozenset({State.READY, State.RUNNING, State.RETRYING, State.SUSPENDED})


class Lot(StrEnum):
    """The lot of an occurrence that falls due while another one of its series is open."""

    SKIPPED = "skipped"
    WAITS = "waits"
    OVERTAKES = "overtakes"


def forbids_overlap(task: Task) -> bool:
    """Whether two occurrences of a task may not run at the same time."""
    policy = task.repeat_policy
    return task.repeat is not None and (policy is None or policy.overlap is not Overlap.ALLOW_ALL)


def blocking_run(record: TaskRecord, run: Run, starting: Collection[str] = ()) -> Run | None:
    """Return the open run of the same series that holds a due one up; those `starting` become ready with it."""
    if not forbids_overlap(record.task) or run.attempt or not _is_of_series(run):
        return None
    others = (each for each in (record.run, *record.side_runs) if each.id != run.id and _is_of_series(each))
    held_by = (each for each in others if is_open(each) or each.id in starting)
    return min(held_by, key=lambda each: (each.scheduled_for, each.id), default=None)


def is_open(run: Run) -> bool:
    """Whether a run may have started, and has not ended."""
    waits = run.state is State.WAITING and run.first_ready_at is not None
    return run.state in _LEFT or waits or (run.state is State.SCHEDULED and run.started_at is not None)


def waits_for(record: TaskRecord, run: Run, now: datetime) -> Run | None:
    """Return the open run for whose end a run of its series waits; None where it waits for none."""
    is_due = run.state is State.SCHEDULED and (run.wake_at or run.scheduled_for) <= now
    return blocking_run(record, run) if is_due and not record.task.paused else None


def overlap_action(record: TaskRecord, run: Run, other: Run, now: datetime) -> Lot:
    """Return what becomes of a run that is due while another one is in its way."""
    due = run.wake_at or run.scheduled_for
    policy = record.task.repeat_policy
    overlap = policy.overlap if policy else Overlap.SKIP
    if other.first_ready_at is None or other.first_ready_at >= due:
        return Lot.WAITS
    if overlap is Overlap.SKIP:
        is_last = run.current and next_run(record.task, run, now, number=run.number) is None
        return Lot.WAITS if is_last else Lot.SKIPPED
    return Lot.OVERTAKES if overlap is Overlap.CANCEL_OTHER else Lot.WAITS


def open_since(task: Task, run: Run) -> datetime | None:
    """Return since when a waiting run counts as open: with buffer_all those that fall due until it ends follow it."""
    policy = task.repeat_policy
    buffers = run.current and policy is not None and policy.overlap is Overlap.BUFFER_ALL
    return (run.first_ready_at or run.scheduled_for) if buffers else run.first_ready_at


def give_way(run: Run, to: Run, now: datetime) -> Run:
    """Return a run that gives way `to` another one: it is asked to stop, or ends where it does not run."""
    if run.state is State.RUNNING:
        return replace(run, cancel_requested=True, overtaken_at=run.overtaken_at or to.scheduled_for)
    ended = cancelled(run, now)
    return replace(ended, overtaken_at=run.overtaken_at or to.scheduled_for)


def _is_of_series(run: Run) -> bool:
    return run.current or is_moved(run)
