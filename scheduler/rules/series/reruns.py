"""Runs that do again what an earlier one did, or did not complete: the next generations of an occurrence."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from duetime.scheduler import remedies
from duetime.scheduler.errors import Refused
from duetime.scheduler.ids import new_id
from duetime.scheduler.rules.occurrences import kept_window, window_of, with_deadline_like
from duetime.scheduler.rules.series.before_run import before_run
from duetime.scheduler.rules.series.overtake import was_cancelled
from duetime.scheduler.rules.states import FAILURES, TERMINAL
from duetime.scheduler.rules.time.durations import MICROSECOND
from duetime.scheduler.rules.time.times import describe
from duetime.scheduler.task import Run, State, Task
from duetime.scheduler.views import TaskRecord

_INCOMPLETE = frozenset({State.FAILED, State.EXPIRED, State.CANCELLED})
"""States after which the next generation completes the work of the ended run, under the same idempotency key."""


def next_generation(task: Task, run: Run, to: datetime, *, wake_at: datetime | None) -> Run:
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
        failed_before=run.failed_before,
        repeats=(run.repeats or run.id) if run.state in _INCOMPLETE else None,
        occurrence=kept_window(task, window_of(run)),
    )
    return with_deadline_like(task, found, run)


def run_under_way(record: TaskRecord) -> Run | None:
    """Return the run of a task that has begun or is due, or that an earlier replay made; None where there is none."""
    run = record.run
    current = run.state is State.READY or (run.started_at is not None and run.state not in TERMINAL)
    return next(iter(record.side_runs), run if current else None)


def has_ended(task: Task, run: Run, argument: str) -> Refused:
    """Return the refusal of a change to a task that has ended: it would have to run again first."""
    at = f"{run.state} {describe(run.ended_at or run.scheduled_for, task.timezone)} {task.timezone}"
    remedy = remedies.ScheduleAnother() if was_cancelled(run) else remedies.RunAgain(task.id)
    return Refused(f"{task.id} has already ended ({at}).", argument=argument, remedy=remedy)


def side_run(task: Task, run: Run, to: datetime) -> Run:
    """Return a side run, which no series follows. Raises Refused where each run needs an approval."""
    refuse_side_run(task)
    return replace(next_generation(task, run, to, wake_at=to), current=False, slot=None)


def replayed_run(task: Task, run: Run, to: datetime) -> Run:
    """Return a side run that does again what one failed to do; that of a step asks and waits again before it starts.

    Raises Refused where each run of a series needs an approval.
    """
    if not before_run(task).asks_in_chain:
        refuse_side_run(task)
    return replace(next_generation(task, run, to, wake_at=to), current=False, slot=None)


def refuse_side_run(task: Task) -> None:
    """Raise Refused where each run needs an approval."""
    if before_run(task).asks_when_due:
        raise Refused(
            f"{task.id} asks before each of its runs, and runs at its times alone.", remedy=remedies.ScheduleAnother()
        )


def failed_before(record: TaskRecord) -> bool:
    """Whether a step failed last, and its chain has begun another generation since."""
    return record.renewed and record.last_run is not None and record.last_run.state in FAILURES


def extra_run(record: TaskRecord, now: datetime, *, completing: bool) -> Run:
    """Return a side run that is due now: if `completing`, it repeats the last failure under its idempotency key."""
    last = record.last_run
    if completing and last is not None and last.state in FAILURES:
        return replayed_run(record.task, last, now)
    return own_occurrence(record.task, side_run(record.task, record.run, now), now)


def own_occurrence(task: Task, run: Run, now: datetime) -> Run:
    """Return the run as an occurrence of its own that is due now and repeats no other run."""
    at = now if now.microsecond else now + MICROSECOND  # planned ones are whole seconds: never the same
    return replace(run, repeats=None, occurrence=kept_window(task, at))
