"""When the runs of a task start, and which of them comes first: its own, or one next to its series."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime

from duetime.scheduler.errors import Refused
from duetime.scheduler.rules.changes import end_pause
from duetime.scheduler.rules.series.catch_up import catches_up
from duetime.scheduler.rules.series.first_side_run import first_side_run, may_come_first
from duetime.scheduler.rules.states import OPEN
from duetime.scheduler.task import Run, State
from duetime.scheduler.views import CHAIN_ACTION, TaskFilter, TaskPage, TaskRecord, TaskView, after_pause, due_at


def starts_at(record: TaskRecord) -> datetime:
    """Return when a reader expects the run of a task, as `due_at`; of one that is paused until a time, after that."""
    task, run = record.task, record.run
    if run.state not in OPEN or run.state is State.RUNNING or not task.paused or task.paused_until is None:
        return due_at(run)
    try:
        coming = run_after_pause(record, task.paused_until) if task.repeat and run.current else run
    except Refused:  # none is left
        return due_at(run)
    return after_pause(task, due_at(run)) if coming.id == run.id else coming.scheduled_for


def side_times(record: TaskRecord) -> Sequence[datetime]:
    """Return when runs start next to the current one: moved past others, snoozed, or to run now."""
    if record.task.paused and record.task.paused_until is None:
        return ()
    return sorted(after_pause(record.task, due_at(run)) for run in record.side_runs if run.state is State.SCHEDULED)


def run_after_pause(record: TaskRecord, until: datetime) -> Run:
    """Return the run with which a series continues when its pause ends: one that is due by then starts at that time.

    A chain runs the generation that fell due during the pause, unless its policy says which missed ones run.
    """
    runs_missed = record.task.action == CHAIN_ACTION and not catches_up(record.task.repeat_policy)
    run = record.run if runs_missed else end_pause(record, until).coming
    if run.started_at is not None or run.state is State.WAITING:
        return run
    return replace(run, scheduled_for=max(run.scheduled_for, until))


def extra_run(record: TaskRecord, now: datetime) -> Run | None:
    """Return the side run that a reader expects first: one that runs, or starts before the current run."""
    if not may_come_first(record):
        return None
    under_way = (run for run in record.side_runs if run.state is State.RUNNING and not run.cancel_requested)
    return min(under_way, key=due_at, default=None) or first_side_run(record, now, starts_at(record))


def expected_at(record: TaskRecord, now: datetime) -> datetime:
    """Return when a reader expects the next run of a task, be it one next to its series."""
    extra = extra_run(record, now)
    return side_start(record, extra) if extra else starts_at(record)


def as_filtered(records: Sequence[TaskRecord], where: TaskFilter) -> Sequence[TaskRecord]:
    """Return the tasks of a list with those side runs alone that its filter of states finds.

    A run in another state stands for no task: a caller who asks what is scheduled sees nothing run.
    """
    if not where.states:
        return records
    return [
        replace(
            each,
            side_runs=_in_states(each.side_runs, where.states),
            listed_by_side_run=each.run.state not in where.states,
        )
        for each in records
    ]


def _in_states(runs: Sequence[Run], states: Collection[State]) -> tuple[Run, ...]:
    return tuple(run for run in runs if run.state in states)


def side_start(record: TaskRecord, run: Run) -> datetime:
    """Return when a reader expects a side run: of a task that is paused until a time, not before that."""
    return due_at(run) if run.state is State.RUNNING else after_pause(record.task, due_at(run))


def ends_in_future(where: TaskFilter, now: datetime) -> bool:
    """Whether a filter has an end that is to come, and is about what is scheduled."""
    scheduled = not where.states or State.SCHEDULED in where.states
    return scheduled and where.before is not None and where.before > now


def rows_of(page: TaskPage) -> Sequence[TaskView]:
    """Return the rows without what comes next to their current runs where a window ahead has rows for that."""
    if page.now is None or not ends_in_future(page.where, page.now):
        return page.views
    return [replace(view, record=replace(view.record, side_runs=())) for view in page.views]
