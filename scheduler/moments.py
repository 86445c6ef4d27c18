"""Turn what a caller gave as a time - words, a datetime, a timedelta - into an instant that is still to come."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.phrases import understand
from duetime.scheduler.rules import zones
from duetime.scheduler.rules.times import Resolved, describe, relative

Moment = str | datetime | timedelta


def resolve_moment(given: Moment, *, now: datetime, zone: str | None, argument: str) -> Resolved:
    """Resolve `given` against `now`.

    Words go through the grammar; a naive datetime is a wall time in `zone` and obeys the same rules as written ones; an
    aware one is an instant. Raises InvalidArgument naming `argument` when it is in the past or cannot be understood.
    """
    if isinstance(given, str):
        return understand(given, now=now, zone=zone, argument=argument)
    if isinstance(given, timedelta):
        return _instant(now + given, now=now, zone=zone, argument=argument)
    if given.tzinfo is None:
        return understand(given.isoformat(timespec="seconds"), now=now, zone=zone, argument=argument)
    return _instant(given.astimezone(UTC), now=now, zone=zone, argument=argument)


def _instant(instant: datetime, *, now: datetime, zone: str | None, argument: str) -> Resolved:
    name = zone or "UTC"
    if instant < now:
        raise InvalidArgument(
            argument,
            f"{describe(instant, name)} {name} is in the past: it was {relative(instant, now)}",
            example=(now + timedelta(hours=1)).isoformat(timespec="seconds"),
        )
    return Resolved(instant, instant.astimezone(zones.load(name)).replace(tzinfo=None), name, ())
