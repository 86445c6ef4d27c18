"""Decide one reschedule: several parts may change in a single call, and all of them do or none."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from duetime.scheduler import changes
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.events import EventKind
from duetime.scheduler.intake import Intake, Problems
from duetime.scheduler.moments import resolve_moment
from duetime.scheduler.occurrences import recurrence_of
from duetime.scheduler.request import Reschedule
from duetime.scheduler.rules import recurrence, zones
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.rules.text import check_text
from duetime.scheduler.store import Change
from duetime.scheduler.task import State, Task, TaskRecord

ONCE = frozenset({"never", "none", "once", "no"})
"""What `repeat` may be to turn a recurring task into a one-shot."""


def decide_reschedule(record: TaskRecord, asked: Reschedule, intake: Intake, now: datetime) -> Change:
    """Return the change that `asked` means for this task; the last part that names an event gives its kind."""
    task = _described(record.task, asked, intake)
    change = _timing_step(record, Change(task, record.run, kind=EventKind.RESCHEDULED), asked, intake, now)
    change = _skip_step(record, _pause_step(record, change, asked, now), asked, now)
    if change == Change(record.task, record.run, kind=EventKind.RESCHEDULED):
        raise InvalidArgument(
            "reschedule_task",
            "nothing to change was given",
            accepted="at least one of title, when, timezone, repeat, until, payload, pause, skip_next that differs",
            example="when='tomorrow 9am'",
        )
    return change


def _described(task: Task, asked: Reschedule, intake: Intake) -> Task:
    problems = Problems()
    if asked.title is not None:
        with problems.collect():
            check_text("title", asked.title)
            task = replace(task, title=asked.title.strip())
    if asked.payload is not None:
        with problems.collect():
            task = replace(task, payload=intake.payload(task.action, asked.payload))
    problems.raise_any()
    return task


def _timing_step(record: TaskRecord, change: Change, asked: Reschedule, intake: Intake, now: datetime) -> Change:
    if asked.repeat is not None and asked.repeat.strip().lower() in ONCE:
        change = replace(change, task=replace(change.task, repeat=None, until=None, max_runs=None))
        asked = replace(asked, repeat=None)
    if asked.repeat is not None or (asked.timezone is not None and change.task.repeat is not None):
        change = _new_recurrence(record, change, asked, intake, now)
    elif asked.when is not None or asked.timezone is not None:
        change = _new_time(record, change, asked, now)
    if asked.until is not None:
        change = _new_until(change, asked, intake, now)
    return change


def _new_recurrence(record: TaskRecord, change: Change, asked: Reschedule, intake: Intake, now: datetime) -> Change:
    if record.run.state is State.CANCELLED:
        raise Refused(f"repeat: {record.task.id} was cancelled. Schedule a new task with schedule_task.")
    zone = asked.timezone or change.task.timezone
    start = resolve_moment(asked.when, now=now, zone=zone, argument="when").instant if asked.when is not None else now
    rule = recurrence.parse(
        asked.repeat or change.task.repeat or "", zone=zone, anchor=start, minimum=intake.minimum_interval
    )
    first = rule.first(start)
    if first is None:
        raise InvalidArgument("repeat", "it has no occurrence that is still to come", example="every weekday at 9:00")
    task = replace(change.task, repeat=rule.rule, timezone=zone, anchor=rule.anchor)
    if record.run.state is State.RUNNING:  # the occurrence that runs is not touched; the next one follows the new rule
        return replace(change, task=task)
    moved = changes.move(replace(record, task=task), first.instant, now)
    return replace(moved, task=task)


def _new_time(record: TaskRecord, change: Change, asked: Reschedule, now: datetime) -> Change:
    zone = asked.timezone or change.task.timezone
    if asked.when is not None:
        resolved = resolve_moment(asked.when, now=now, zone=zone, argument="when")
    else:
        wall = _wall_time(record)
        resolved = resolve_moment(wall, now=now, zone=zone, argument="timezone")
    task = replace(change.task, timezone=zone, when=str(asked.when) if asked.when is not None else change.task.when)
    return replace(changes.move(replace(record, task=task), resolved.instant, now), task=task)


def _wall_time(record: TaskRecord) -> datetime:
    """Return the wall time that the task was set for: a change of zone alone keeps it."""
    return record.run.scheduled_for.astimezone(zones.load(record.task.timezone)).replace(tzinfo=None)


def _new_until(change: Change, asked: Reschedule, intake: Intake, now: datetime) -> Change:
    if recurrence_of(change.task) is None:
        raise InvalidArgument(
            "until", "only a recurring task has an end", accepted="together with repeat", example="repeat='daily'"
        )
    coming = change.next_run or change.run
    first = coming.scheduled_for if coming.state not in TERMINAL else now
    end = intake.until(asked.until, now=now, zone=change.task.timezone, first=first)
    return replace(change, task=replace(change.task, until=end))


def _pause_step(record: TaskRecord, change: Change, asked: Reschedule, now: datetime) -> Change:
    if asked.pause is None or asked.pause == record.task.paused:
        return change
    so_far = replace(record, task=change.task, run=change.next_run or change.run)
    step = changes.pause(so_far) if asked.pause else changes.resume(so_far, now)
    return _joined(change, step)


def _skip_step(record: TaskRecord, change: Change, asked: Reschedule, now: datetime) -> Change:
    if not asked.skip_next:
        return change
    return _joined(change, changes.skip_next(replace(record, task=change.task, run=change.next_run or change.run), now))


def _joined(change: Change, step: Change) -> Change:
    """Apply `step` on top of `change`; two parts that each make a new run cannot stand in one call."""
    if change.next_run is None:
        return step
    if step.next_run is None:
        return replace(change, task=step.task, next_run=step.run, kind=step.kind)
    raise Refused("reschedule_task: give pause or skip_next in a call of its own, after the new time.")
