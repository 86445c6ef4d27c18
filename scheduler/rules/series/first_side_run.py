"""A run next to a series that starts before the next one of it: what a reader sees first, and a snooze postpones."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final

from duetime.scheduler.events import EventKind
from duetime.scheduler.ids import new_id
from duetime.scheduler.records import Change
from duetime.scheduler.rules.occurrences import with_deadline_like
from duetime.scheduler.rules.series.overtake import is_stopping
from duetime.scheduler.rules.states import OPEN, blocked_by
from duetime.scheduler.task import Run, State
from duetime.scheduler.views import TaskRecord, after_pause, due_at

_TO_COME: Final = frozenset({State.SCHEDULED, State.READY})


def may_come_first(record: TaskRecord) -> bool:
    """Whether a run next to the current one may be what its user expects first.

    Not where the current one runs or has ended, nor where it needs its user: it is blocked, stopping or damaged. A
    list that leaves it out shows the other one even so, unless the task is damaged.
    """
    run = record.run
    needs_its_user = record.damage or (not record.listed_by_side_run and (is_stopping(run) or blocked_by(run)))
    return run.state in OPEN and run.state is not State.RUNNING and not needs_its_user


def first_side_run(record: TaskRecord, now: datetime, due: datetime) -> Run | None:
    """Return the side run that waits to start before the current run, which is `due` then; None where there is none.

    A pause without an end holds them all.
    """
    task = record.task
    if not may_come_first(record) or (task.paused and task.paused_until is None):
        return None
    waiting = (run for run in record.side_runs if run.state in _TO_COME and not run.cancel_requested)
    first = min(waiting, key=due_at, default=None)
    return first if first and max(now, after_pause(task, due_at(first))) < due else None


def side_run_put_off(record: TaskRecord, run: Run, to: datetime) -> Change:
    """Return the change that replaces a side run that has not started by the same run at a later time."""
    later = replace(run, id=new_id("r"), state=State.SCHEDULED, scheduled_for=to, wake_at=to, first_ready_at=None)
    extra = with_deadline_like(record.task, later, run)
    return Change(record.task, record.run, extra_run=extra, cancelled_side_runs=(run,), kind=EventKind.SNOOZED)
