"""Decides one reschedule: a single call may change several parts, all of them or none."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from duetime.scheduler import remedies
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.events import EventKind
from duetime.scheduler.intake.instants import resolve_moment
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.intake.reschedule_urgency import demand_step
from duetime.scheduler.intake.series_end import series_end
from duetime.scheduler.intake.validation import ProblemCollector
from duetime.scheduler.records import Change
from duetime.scheduler.request import Reschedule
from duetime.scheduler.rules import changes
from duetime.scheduler.rules.occurrences import next_run, recurrence_of
from duetime.scheduler.rules.recurrence import recurrence
from duetime.scheduler.rules.sanitize import check_text
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.rules.time import zones
from duetime.scheduler.rules.time.times import describe
from duetime.scheduler.task import Occurrence, Run, State, Task, TaskRecord

ONCE = frozenset({"never", "none", "once", "no"})
"""A `repeat` that makes a recurring task one-shot, and an `until` that removes its end."""

NOTHING_CHANGED = "it already has these values; nothing was changed"
ONCE_MORE = "its recurrence was cancelled: it runs once at that time and does not recur"
ONE_OCCURRENCE = "only the next occurrence was moved; to move them all, give all_following=true as well"


def decide_reschedule(
    record: TaskRecord, asked: Reschedule, planner: Planner, now: datetime
) -> tuple[Change, tuple[str, ...]]:
    """Return the change that `asked` makes to this task, with its assumptions and warnings.

    The last part with an event of its own gives the change its kind.
    """
    if asked == Reschedule():
        raise InvalidArgument(
            "changes",
            "nothing to change was given",
            accepted="at least one of title, when, timezone, repeat, until, payload, priority, deadline, "
            "deadline_type, estimate, needs, pause, skip_next, all_following",
            example="when='tomorrow 9am'",
        )
    task = _described(record.task, asked, planner)
    change, timed = _timing_step(record, Change(task, record.run, kind=EventKind.RESCHEDULED), asked, planner, now)
    change, demanded = demand_step(record, change, asked, planner, now)
    said = (*timed, *demanded)
    change = _skip_step(record, _pause_step(record, change, asked, now), asked, now)
    if change == Change(record.task, record.run, kind=EventKind.RESCHEDULED):
        return change, (*said, NOTHING_CHANGED)
    return change, said


def _described(task: Task, asked: Reschedule, planner: Planner) -> Task:
    problems = ProblemCollector()
    title = None if asked.title is None else problems.of(check_text, "title", asked.title)
    given = planner.changed_payload(task.action, asked.payload)
    payload = None if given is None else problems.of(planner.payload, task.action, given)
    if problems:
        raise problems.error()
    return replace(task, title=title or task.title, payload=task.payload if payload is None else payload)


def _timing_step(
    record: TaskRecord, change: Change, asked: Reschedule, planner: Planner, now: datetime
) -> tuple[Change, tuple[str, ...]]:
    said: tuple[str, ...] = ()
    if asked.repeat is not None and asked.repeat.strip().lower() in ONCE:
        change = replace(change, task=replace(change.task, repeat=None, until=None, max_runs=None))
        asked = replace(asked, repeat=None)
    if asked.all_following:
        change, said = _all_following(record, change, asked, planner, now)
    elif asked.repeat is not None or (_new_zone(change.task, asked) and change.task.repeat is not None):
        change, said = _new_recurrence(record, change, asked, planner, now)
    elif asked.when is not None or asked.timezone is not None:
        change, said = _new_time(record, change, asked, planner, now)
    if asked.until is not None:
        change, noted = _until_step(record, change, asked, planner, now)
        said = (*said, *noted)
    return change, said


def _all_following(
    record: TaskRecord, change: Change, asked: Reschedule, planner: Planner, now: datetime
) -> tuple[Change, tuple[str, ...]]:
    """Move the whole series: its days stay, and its time of day becomes that of `when`."""
    rule, task = recurrence_of(change.task), change.task
    if asked.when is None or asked.repeat is not None or rule is None:
        raise InvalidArgument(
            "all_following",
            "it moves the series of a recurring task to the time of `when`",
            accepted="`when`, without `repeat`, of a task that recurs",
            example="when='17:30', all_following=true",
        )
    had, zone = record.run.slot or record.run.scheduled_for, asked.timezone or task.timezone
    frame = planner.frame(asked.timezone, moved=record.run.scheduled_for, own=task.timezone)
    to = resolve_moment(asked.when, now=now, zone=zone, argument="when", frame=frame)
    wall = _wall_time(to.instant, task.timezone)
    moved = recurrence.at_time(rule, _wall_time(had, task.timezone).time(), wall.time())
    if moved is None:
        raise InvalidArgument("all_following", f"{rule.text!r} cannot be moved as a whole", example="repeat='daily'")
    whole = replace(asked, when=to.instant, repeat=moved, timezone=None, all_following=False)
    change, said = _new_recurrence(record, change, whole, planner, now)
    first = (change.next_run or change.run).scheduled_for
    if first != to.instant and not changes.has_started(record.run):
        raise InvalidArgument(
            "when",
            f"{describe(to.instant, task.timezone)} is not one of its days ({rule.text})",
            accepted="a time on one of them, or `repeat` with other days",
            example=f"when={describe(first, task.timezone)!r}",
        )
    return change, (*to.assumptions, *said)


def _new_zone(task: Task, asked: Reschedule) -> bool:
    """Whether `asked` moves the recurrence to its zone; the task's own beside `when` only says how to read that."""
    if asked.timezone is None:
        return False
    return asked.when is None or zones.find(asked.timezone).key != task.timezone


def _new_recurrence(
    record: TaskRecord, change: Change, asked: Reschedule, planner: Planner, now: datetime
) -> tuple[Change, tuple[str, ...]]:
    _refuse_cancelled(record, "repeat" if asked.repeat is not None else "timezone")
    zone = asked.timezone or change.task.timezone
    had = record.run.scheduled_for
    frame = planner.frame(asked.timezone, moved=had, own=change.task.timezone)
    given = None
    if asked.when is not None:
        given = resolve_moment(asked.when, now=now, zone=zone, argument="when", frame=frame)
    start = given.instant if given else None
    if start is None and asked.repeat is None:
        start = _in_zone(change.task.anchor, record.task.timezone, zone)
    rule, first, notes = planner.recurrence(asked.repeat or change.task.repeat or "", zone, start, now, moved=had)
    task = replace(change.task, repeat=rule.rule, timezone=rule.zone, anchor=rule.anchor)
    _check_runs_left(task, record.run, "repeat")
    if asked.until is None:
        _check_end(task, first)
    said = (*(given.assumptions if given else ()), *notes)
    if changes.has_started(record.run):  # a started run stays as it is; the next occurrence follows the new rule
        return replace(change, task=task), said
    return replace(changes.move(replace(record, task=task), first.instant, now, by_rule=True), task=task), said


def _refuse_cancelled(record: TaskRecord, argument: str) -> None:
    """Refuse to continue a series that was cancelled before or during its run."""
    if record.run.state is State.CANCELLED or record.run.cancel_requested:
        raise Refused(f"{record.task.id} was cancelled.", argument=argument, remedy=remedies.ScheduleAnother())


def _check_end(task: Task, first: Occurrence) -> None:
    """Refuse a rule that has no occurrence before the task's end."""
    if task.until is not None and first.instant > task.until:
        raise InvalidArgument(
            "repeat",
            f"its first occurrence, {describe(first.instant, task.timezone)}, is after the task's end",
            accepted="a later until in the same call, or 'never'",
            example="until='never'",
        )


def _check_runs_left(task: Task, run: Run, argument: str) -> None:
    """Refuse to continue a series that has reached `max_runs`."""
    used = run.number - (run.state not in TERMINAL and not changes.has_started(run))
    if task.max_runs is not None and used >= task.max_runs:
        raise Refused(
            f"{task.id} has used up its {task.max_runs} runs.", argument=argument, remedy=remedies.ScheduleAnother()
        )


def _new_time(
    record: TaskRecord, change: Change, asked: Reschedule, planner: Planner, now: datetime
) -> tuple[Change, tuple[str, ...]]:
    zone = asked.timezone or change.task.timezone
    if asked.when is None and (record.run.scheduled_for <= now or changes.has_started(record.run)):
        return replace(
            change, task=replace(change.task, timezone=zones.find(zone).key)
        ), ()  # only what is said changes
    given = asked.when if asked.when is not None else _wall_time(record.run.scheduled_for, record.task.timezone)
    frame = planner.frame(asked.timezone, moved=record.run.scheduled_for, own=change.task.timezone)
    argument = "when" if asked.when is not None else "timezone"
    resolved = resolve_moment(given, now=now, zone=zone, argument=argument, frame=frame)
    when = str(asked.when) if asked.when is not None else change.task.when
    task = replace(change.task, timezone=resolved.zone if asked.timezone else zone, when=when)
    moved = changes.move(replace(record, task=task), resolved.instant, now)
    alone = (ONE_OCCURRENCE if moved.task.repeat else ONCE_MORE,) if task.repeat else ()
    return moved, (*resolved.assumptions, *alone)


def _in_zone(instant: datetime, old: str, new: str) -> datetime:
    """Return the instant at which the wall time of `instant` in the old zone comes in the new one."""
    return zones.place(_wall_time(instant, old), zones.find(new)).instant


def _wall_time(instant: datetime, zone: str) -> datetime:
    return instant.astimezone(zones.load(zone)).replace(tzinfo=None)


def _until_step(
    record: TaskRecord, change: Change, asked: Reschedule, planner: Planner, now: datetime
) -> tuple[Change, tuple[str, ...]]:
    """Change the end of a series; an ended series continues, if the new end leaves it an occurrence."""
    endless = str(asked.until).strip().lower() in ONCE
    rule = recurrence_of(change.task)
    if rule is None:
        if endless:
            return change, ()
        raise InvalidArgument(
            "until",
            "only a recurring task has an end",
            accepted="give repeat in the same call",
            example="repeat='daily'",
        )
    _refuse_cancelled(record, "until")
    coming = change.next_run or change.run
    following = _goes_on(change.task, coming, now) if coming.state in TERMINAL else None
    end = None
    if not endless:
        first = (following or coming).scheduled_for
        zone, frame = change.task.timezone, planner.frame(asked.timezone, own=change.task.timezone)
        end = series_end(asked.until, rule, now=now, zone=zone, first=first, frame=frame)
    task = replace(change.task, until=end)
    if following is None:
        return replace(change, task=task), ()
    when = f"{describe(following.scheduled_for, task.timezone)} {task.timezone}"
    return replace(change, task=task, next_run=following), (f"the series goes on: it next runs {when}",)


def _goes_on(task: Task, last: Run, now: datetime) -> Run:
    """Return the successor of the last run of an ended series; raises Refused when there is none."""
    _check_runs_left(task, last, "until")
    following = next_run(replace(task, until=None), last, now)
    if following is None:
        raise Refused(
            f"the rule of {task.id} has no further occurrence.", argument="until", remedy=remedies.GiveRule(task.id)
        )
    return replace(following, missed=0)


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
    """Apply `step` on top of `change`; two parts that each make a new run exclude each other."""
    if change.next_run is None:
        return step
    if step.next_run is None:
        return replace(change, task=step.task, next_run=step.run, kind=step.kind)
    raise Refused("Two parts of the call would each make a new run.", remedy=remedies.SplitCall(step.task.id))
