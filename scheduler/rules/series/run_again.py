"""Runs that do again what an earlier one did, or did not complete: the next generations of an occurrence."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from duetime.scheduler.ids import new_id
from duetime.scheduler.rules.occurrences import dated_like, kept_window, window_of
from duetime.scheduler.rules.states import FAILURES
from duetime.scheduler.task import Run, State, Task
from duetime.scheduler.views import TaskRecord

_INCOMPLETE = frozenset({State.FAILED, State.EXPIRED, State.CANCELLED})
"""States after which the next generation does again what was not completed, under the same idempotency key."""


def again(task: Task, run: Run, to: datetime, *, wake_at: datetime | None) -> Run:
    """Return the next generation of an ended run, which itself stays as it ended."""
    found = Run(
        id=new_id("r"),
        task_id=run.task_id,
        tenant=run.tenant,
        scheduled_for=to,
        state=State.SCHEDULED,
        generation=run.generation + 1,
        number=run.number,
        wake_at=wake_at,
        slot=run.slot,
        repeats=(run.repeats or run.id) if run.state in _INCOMPLETE else None,
        occurrence=kept_window(task, window_of(run)),
    )
    return dated_like(task, found, run)


def side_run(task: Task, run: Run, to: datetime) -> Run:
    """Return a side run: it has no next occurrence of its own."""
    return replace(again(task, run, to, wake_at=to), current=False, slot=None)


def extra_run(record: TaskRecord, now: datetime) -> Run:
    """Return the occurrence that failed once more, under its key, or one of its own, of this second."""
    last = record.last_run
    if last is not None and last.state in FAILURES:
        return side_run(record.task, last, now)
    own = kept_window(record.task, now.replace(microsecond=0))
    return replace(side_run(record.task, record.run, now), occurrence=own)
