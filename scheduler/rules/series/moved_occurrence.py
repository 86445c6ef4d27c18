"""An occurrence that is moved past later ones: these stay, and it runs next to them, or as the one that it falls on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.events import EventKind
from duetime.scheduler.ids import new_id
from duetime.scheduler.records import Change
from duetime.scheduler.rules.occurrences import (
    TooManyOccurrences,
    following,
    kept_window,
    next_run,
    skip_run,
    window_of,
    with_deadline_like,
)
from duetime.scheduler.rules.series.before_run import before_run
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.rules.time.durations import MICROSECOND
from duetime.scheduler.rules.time.times import describe, length
from duetime.scheduler.task import Run, State, Task
from duetime.scheduler.translatable import NoteKind, Translatable
from duetime.scheduler.views import TaskRecord


def move_past_next(record: TaskRecord, to: datetime, now: datetime, kind: EventKind) -> Change | None:
    """Return the change that moves the current occurrence to or past the next one; None for a time before that.

    At the time of another occurrence the two are one: the moved one is skipped, and says why. Else it becomes a side
    run, and the next one the current run. Raises InvalidArgument where each run is asked for first.
    """
    task, run = record.task, record.run
    if run.state in TERMINAL or run.started_at is not None:
        return None
    coming = next_run(task, run, now)
    if coming is None or to < coming.scheduled_for:
        return None
    if _falls_on_another(record, to, now):
        left_out = replace(skip_run(run, now), error=as_one_note(task, to))
        return Change(task, left_out, next_run=replace(coming, number=run.number), kind=kind)
    if before_run(task).asks_in_series:
        raise _asks_before(task, max(now, run.scheduled_for), coming.scheduled_for, now, kind)
    return Change(task, _in_its_place(run, coming), extra_run=_at_its_time(task, run, to, now), kind=kind)


def _asks_before(task: Task, due: datetime, end: datetime, now: datetime, kind: EventKind) -> InvalidArgument:
    """Return the refusal of such a move where each run needs an approval; its example is a time before the next one."""
    between = due + (end - due) / 2
    minute = between.replace(second=0, microsecond=0)
    shown = describe(minute, task.timezone) if minute > due else f"in {length(between - now)}"
    name, bound = "until" if kind is EventKind.SNOOZED else "when", describe(end, task.timezone)
    problem = f"it asks before each of its runs, one at a time, and the next one comes {bound} {task.timezone}"
    return InvalidArgument(name, problem, accepted=f"a time before {bound}", example=f"{name}={shown!r}")


def is_moved(run: Run) -> bool:
    """Whether a side run is an occurrence of its series that was moved past others."""
    return run.slot is not None and not run.current


def open_snoozes(side_runs: Iterable[Run]) -> tuple[Run, ...]:
    """Return the side runs of earlier snoozes that are still to come, which a new snooze replaces."""
    return tuple(run for run in side_runs if run.state is State.SCHEDULED and not is_moved(run))


def snoozed_until(side_runs: Iterable[Run]) -> datetime | None:
    """Return when the snoozed outcome comes again, which is where a new snooze counts from; None without a snooze."""
    return max((run.wake_at or run.scheduled_for for run in open_snoozes(side_runs)), default=None)


def same_time_note(change: Change) -> str:
    """Return a note for a change that moved an occurrence to the time of another one; empty for any other change."""
    onto = change.kind in {EventKind.RESCHEDULED, EventKind.SNOOZED} and change.run.state is State.SKIPPED
    return (change.run.error or "") if onto else ""


def _falls_on_another(record: TaskRecord, to: datetime, now: datetime) -> bool:
    if any(is_moved(each) and each.scheduled_for == to for each in record.side_runs):
        return True
    try:
        return any(following(record.task, record.run, now, start=to, end=to + MICROSECOND))
    except TooManyOccurrences:
        return False


def as_one_note(task: Task, to: datetime) -> str:
    """Say that an occurrence was moved to the time of another one."""
    text = f"moved onto that of {describe(to, task.timezone)}: they run as one"
    return Translatable.of(NoteKind.AS_ONE, text, at=to.isoformat())


def _at_its_time(task: Task, run: Run, to: datetime, now: datetime) -> Run:
    """Return the moved occurrence, which keeps its number, its place in the series, and what it completes."""
    moved = replace(
        run,
        id=new_id("r"),
        state=State.SCHEDULED,
        current=False,
        scheduled_for=to,
        wake_at=max(to, now),
        first_ready_at=None,
        slot=run.slot or run.scheduled_for,
        overtaken_at=None,
        occurrence=kept_window(task, window_of(run)),
    )
    return with_deadline_like(task, moved, run)


def _in_its_place(run: Run, coming: Run) -> Run:
    """Return the current run as the occurrence that comes next."""
    return replace(coming, id=run.id, generation=run.generation)
