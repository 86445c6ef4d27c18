"""The end of a series, `until` and `max_runs`: of a new task, and of one that is rescheduled."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime

from duetime.scheduler.calls.reschedule import Reschedule
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.intake.instants import LAST_OF_DAY, later
from duetime.scheduler.request import Moment, Request
from duetime.scheduler.rules.recurrence.recurrence import Recurrence
from duetime.scheduler.rules.time import zones
from duetime.scheduler.rules.time.times import Resolved, describe
from duetime.scheduler.rules.time.tokens import NUMBERS
from duetime.scheduler.rules.time.viewpoint import NEW_TASK, Frame

ENDLESS_WORDS = frozenset({"never", "none", "once", "no"})
"""An `until` that removes the end of a series, and a `repeat` that makes a recurring task one-shot."""


_COUNTED = re.compile(r"(?:after )?([0-9]{1,6}|[a-z]+) (?:times?|runs?|occurrences?)")
_STOPPED = frozenset({"stop", "stopped", "off", "end", "cancel", "remove"})


def without_rule(request: Request) -> Request:
    """Return a request that recurs `never` as one without a rule, and one that never ends as one without an end."""
    if is_endless(request):
        request = replace(request, until=None)
    if request.repeat is None or str(request.repeat).strip().lower() not in ENDLESS_WORDS:
        return request
    return replace(request, repeat=None)


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


def is_endless(request: Request | Reschedule) -> bool:
    return request.until is not None and str(request.until).strip().lower() in ENDLESS_WORDS
