"""Resolves `until`, the end of a recurrence."""

from __future__ import annotations

from datetime import datetime

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.intake.instants import Moment, resolve_end
from duetime.scheduler.rules.recurrence.recurrence import Recurrence
from duetime.scheduler.rules.time import zones
from duetime.scheduler.rules.time.parser import NEW_TASK, Frame
from duetime.scheduler.rules.time.times import describe


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
    end = resolve_end(given, now=now, zone=zone, frame=frame)
    if rule and rule.until:
        raise _second_end(rule, given)
    if end.instant < first:
        begins = f"{describe(first, end.zone)} {end.zone}"
        raise InvalidArgument(
            "until",
            f"{describe(end.instant, end.zone)} is before the next occurrence, {begins}",
            accepted="a time at or after it",
            example=f"{first.astimezone(zones.load(end.zone)):%Y-%m-%d}",
        )
    return end.instant


def _second_end(rule: Recurrence, given: Moment) -> InvalidArgument:
    endless, _, end = rule.text.rpartition(" until ")
    return InvalidArgument(
        "until",
        f"repeat already ends at {end}, and a task has only one end",
        accepted="the end in repeat or in until",
        example=f"repeat={endless!r}, until={str(given)!r}",
    )
