"""The end of a series, `until` and `max_runs`: of a new task, and of one that is rescheduled."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime

from duetime.scheduler import remedies
from duetime.scheduler.calls.reschedule import Reschedule
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.intake.instants import LAST_OF_DAY, later
from duetime.scheduler.intake.validation import refuse_ends_without_repeat
from duetime.scheduler.records import Change
from duetime.scheduler.request import Moment, Request
from duetime.scheduler.rules import changes
from duetime.scheduler.rules.occurrences import next_run, recurrence_of
from duetime.scheduler.rules.recurrence.recurrence import Recurrence
from duetime.scheduler.rules.series.overtake import ends_series
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.rules.time import zones
from duetime.scheduler.rules.time.times import Resolved, describe
from duetime.scheduler.rules.time.tokens import NUMBERS
from duetime.scheduler.rules.time.viewpoint import NEW_TASK, Frame
from duetime.scheduler.task import Occurrence, Run, Task
from duetime.scheduler.translatable import NoteKind, Translatable
from duetime.scheduler.views import TaskRecord

ENDLESS_WORDS = frozenset({"never", "none", "once", "no"})
"""An `until` that removes the end of a series, and a `repeat` that makes a recurring task one-shot."""


_COUNTED = re.compile(r"(?:after )?([0-9]{1,6}|[a-z]+) (?:times?|runs?|occurrences?)")
_STOPPED = frozenset({"stop", "stopped", "off", "end", "cancel", "remove"})


def without_rule(request: Request) -> Request:
    """Return a request that recurs `never` as one without a rule, and one that never ends as one without an end."""
    if _is_endless(request):
        request = replace(request, until=None)
    if request.repeat is None or str(request.repeat).strip().lower() not in ENDLESS_WORDS:
        return request
    return replace(request, repeat=None)


def end_in_zone(task: Task, zone: str) -> datetime | None:
    """Return the end of a series in another zone: one that was a day stays that day, any other one its instant."""
    wall = task.until and task.until.astimezone(zones.load(task.timezone)).replace(tzinfo=None)
    return task.until if not wall or wall.time() != LAST_OF_DAY else zones.place(wall, zones.load(zone)).instant


def never_recurs(repeat: str) -> bool:
    """Whether a new rule says that a task does not recur. Raises InvalidArgument for one that may mean a cancel."""
    text = str(repeat).strip().lower()
    if text in _STOPPED:
        raise InvalidArgument(
            "repeat",
            f"{text!r} does not say whether it runs once more",
            accepted="'never': it runs once more and does not recur. A cancel ends it at once",
            example="repeat='never'",
        )
    return text in ENDLESS_WORDS


def series_end(
    given: Moment | None,
    rule: Recurrence | None,
    *,
    now: datetime,
    zone: str | None,
    first: datetime,
    frame: Frame = NEW_TASK,
) -> datetime | None:
    """Resolve the end of a recurrence, which must not lie before its next occurrence, `first`.

    A rule with its own end accepts no second one. `rule` is None when the recurrence was invalid.
    """
    if given is None:
        return None
    end = _read_end(given, first, now=now, zone=zone, frame=frame)
    if rule and rule.until:
        raise _second_end(rule, max(end.instant, first), end.zone)
    if end.instant < first:
        begins = f"{describe(first, end.zone)} {end.zone}"
        raise InvalidArgument(
            "until",
            f"{describe(end.instant, end.zone)} is before the next occurrence, {begins}",
            accepted="a time at or after it",
            example=f"{first.astimezone(zones.load(end.zone)):%Y-%m-%d}",
        )
    return end.instant


def _read_end(given: Moment, first: datetime, *, now: datetime, zone: str | None, frame: Frame) -> Resolved:
    """Resolve the end of a series; the example of one that is wrong is not before its next occurrence, `first`."""
    counted = _COUNTED.fullmatch(str(given).strip().lower())
    count = counted and (int(counted[1]) if counted[1].isdigit() else NUMBERS.get(counted[1]))
    if count:
        problem, accepted = f"{str(given)!r} is a number of runs", "a time; a number of runs is max_runs alone"
        raise InvalidArgument("until", problem, accepted=accepted, example=f"max_runs={count}, until=null")
    return later(given, first, now=now, zone=zone, argument="until", frame=frame, ends=True)


def _second_end(rule: Recurrence, end: datetime, zone: str) -> InvalidArgument:
    """Return the refusal of a second end, as a date: without the first one, its words may mean another day."""
    endless, _, said = rule.text.rpartition(" until ")
    wall = end.astimezone(zones.load(zone))
    day = f"{wall:%Y-%m-%d}" if wall.time() == LAST_OF_DAY else f"{wall:%Y-%m-%d %H:%M}"
    return InvalidArgument(
        "until",
        f"repeat already ends at {said}, and a task has only one end",
        accepted="the end in repeat or in until",
        example=f"repeat={endless!r}, until={day!r}",
    )


def refuse_second_count(rule: Recurrence | None, max_runs: int | None) -> None:
    """Refuse a number of runs of a rule that has another one."""
    if rule is None or not rule.count or max_runs in {None, rule.count}:
        return
    endless, _, _ = rule.text.rpartition(", ")
    told = rule.text == f"{endless}, {rule.count} times"
    raise InvalidArgument(
        "max_runs",
        f"repeat already ends after {rule.count} run{'s' * (rule.count != 1)}, and a task has only one end",
        accepted="the number in repeat or in max_runs",
        example=f"repeat={endless!r}, max_runs={max_runs}" if told else f"max_runs={rule.count}",
    )


def with_max_runs(task: Task, request: Reschedule) -> Task:
    """Return the task with another number of runs; a one-shot has one, whatever a client fills in."""
    if "max_runs" in request.remove:
        return replace(task, max_runs=None)
    if request.max_runs is None:
        return task
    if task.repeat is None and request.repeat is None:
        refuse_ends_without_repeat(replace(request, until=None))
        return task
    if request.repeat is None:
        refuse_second_count(recurrence_of(task), request.max_runs)
    return replace(task, max_runs=request.max_runs)


def refuse_cancelled(record: TaskRecord, argument: str) -> None:
    """Refuse to continue a series that was cancelled before or during its run."""
    if ends_series(record.run):
        raise Refused(f"{record.task.id} was cancelled.", argument=argument, remedy=remedies.ScheduleAnother())


def check_runs_left(task: Task, run: Run, argument: str) -> None:
    """Refuse to continue a series that has reached `max_runs`."""
    used = run.number - (run.state not in TERMINAL and not changes.has_started(run))
    if task.max_runs is None or used < task.max_runs:
        return
    words = f"has used up its {used} runs" if used == task.max_runs else f"has had {used} runs already"
    raise Refused(f"{task.id} {words}.", argument=argument, remedy=remedies.RaiseMaxRuns(task.id, used + 1))


def end_step(
    record: TaskRecord, change: Change, request: Reschedule, frame: Frame, now: datetime
) -> tuple[Change, tuple[str, ...]]:
    """Change the end of a series; an ended series continues, if the new end leaves it an occurrence.

    The task of `change` has its new number of runs already.
    """
    counted = change.task.repeat is not None and change.task.max_runs != record.task.max_runs
    if request.until is None and not counted:
        return change, ()
    rule = recurrence_of(change.task)
    if rule is None:
        return _without_series(change, request)
    refuse_cancelled(record, "max_runs" if request.until is None else "until")
    coming = change.next_run or change.run
    following = _goes_on(change.task, coming, request, now) if coming.state in TERMINAL else None
    if following is None and counted:
        _check_number(change.task, coming)
    first = (following or coming).scheduled_for
    task = _with_until(change.task, request, rule, now=now, first=first, frame=frame)
    if following is None:
        return replace(change, task=task), ()
    when = f"{describe(following.scheduled_for, task.timezone)} {task.timezone}"
    return replace(change, task=task, next_run=following), (
        _goes_on_note(f"the series goes on: it next runs {when}", following),
    )


def _without_series(change: Change, request: Reschedule) -> tuple[Change, tuple[str, ...]]:
    if not _is_endless(request):
        refuse_ends_without_repeat(replace(request, max_runs=None))
    return change, ()


def _is_endless(request: Request | Reschedule) -> bool:
    return request.until is not None and str(request.until).strip().lower() in ENDLESS_WORDS


def _with_until(
    task: Task, request: Reschedule, rule: Recurrence, *, now: datetime, first: datetime, frame: Frame
) -> Task:
    if request.until is None:
        return task
    if _is_endless(request):
        return replace(task, until=None)
    return replace(task, until=series_end(request.until, rule, now=now, zone=task.timezone, first=first, frame=frame))


def _check_number(task: Task, coming: Run) -> None:
    """Refuse a number of runs that the coming or running one exceeds."""
    if task.max_runs is not None and task.max_runs < coming.number:
        raise InvalidArgument(
            "max_runs",
            f"it has had {coming.number - 1} runs, and {describe(coming.scheduled_for, task.timezone)} is the next one",
            accepted=f"{coming.number} or more; cancel it to end it now",
            example=f"max_runs={coming.number}",
        )


def _goes_on(task: Task, last: Run, request: Reschedule, now: datetime) -> Run:
    """Return the successor of the last run of an ended series; raises Refused when there is none."""
    argument = "max_runs" if request.until is None else "until"
    check_runs_left(task, last, argument)
    following = next_run(task if request.until is None else replace(task, until=None), last, now)
    if following is not None:
        return replace(following, missed=0)
    if task.until is not None and request.until is None:
        raise InvalidArgument(
            "max_runs",
            f"the series ended {describe(task.until, task.timezone)}",
            accepted="a later until in the same call, or 'never'",
            example="until='never'",
        )
    raise Refused(
        f"the rule of {task.id} has no further occurrence.", argument=argument, remedy=remedies.GiveRule(task.id)
    )


def _goes_on_note(text: str, following: Run) -> str:
    return Translatable.of(NoteKind.SERIES_GOES_ON, text, at=following.scheduled_for.isoformat())


def check_end(task: Task, first: Occurrence) -> None:
    """Refuse a rule that has no occurrence before the task's end."""
    if task.until is not None and first.instant > task.until:
        raise InvalidArgument(
            "repeat",
            f"its first occurrence, {describe(first.instant, task.timezone)}, is after the task's end",
            accepted="a later until in the same call, or 'never'",
            example="until='never'",
        )
