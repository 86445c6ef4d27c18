"""Calendar windows in a time zone: when a budget begins again, and which hours of the week have which capacity."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from duetime.scheduler.rules.time import zones
from duetime.scheduler.rules.time.durations import MICROSECOND

DAY_NAMES = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
PERIODS = ("hour", "day", "week", "month")

_HOURS = re.compile(r"(?:([a-z, -]+?)\s+)?(\d{1,2}):(\d{2})\s*-\s*(\d{1,2}):(\d{2})")
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Hours:
    """Hours of the week with a capacity of their own, from `start` to `end` in minutes of a day; may cross midnight."""

    text: str
    days: frozenset[int]
    start: int
    end: int
    capacity: int


def read_hours(text: str, capacity: int) -> Hours:
    """Parse "mon-fri 22:00-06:00", "sat,sun 00:00-24:00" or "08:00-18:00"; raises ValueError with the reason."""
    found = _HOURS.fullmatch(text.strip().lower())
    if found is None:
        raise ValueError(f"{text[:40]!r} is not days and hours")
    days, *clock = found.groups()
    start, end = (int(hour) * 60 + int(minute) for hour, minute in (clock[:2], clock[2:]))
    if start >= 24 * 60 or end > 24 * 60 or max(int(clock[1]), int(clock[3])) > 59:  # noqa: PLR2004 - of a clock
        raise ValueError(f"{text!r} has a time that no clock shows")
    return Hours(text, frozenset(_days(days)), start, end, capacity)


def _days(text: str | None) -> Iterator[int]:
    for part in re.split(r"\s*,\s*", text) if text else ["mon-sun"]:
        first, _, last = part.partition("-")
        begin, end = _day(first), _day(last or first)
        yield from ((begin + offset) % 7 for offset in range((end - begin) % 7 + 1))


def _day(name: str) -> int:
    short = name.strip()[:3]
    if short not in DAY_NAMES:
        raise ValueError(f"{name[:40]!r} is not a day")
    return DAY_NAMES.index(short)


def changes(
    hours: Sequence[Hours], base: int, zone: ZoneInfo, start: datetime, days: int
) -> list[tuple[datetime, int]]:
    """Return the capacity at `start` and at each change in the `days` after it; overlapping hours have the largest."""
    today = start.astimezone(zone).date()
    spans = [span for offset in range(-1, days + 1) for span in _spans(hours, today + offset * _DAY, zone)]
    moments = sorted({start, *(at for begin, end, _ in spans for at in (begin, end) if at > start)})
    found: list[tuple[datetime, int]] = []
    for at in moments:
        holds = max((capacity for begin, end, capacity in spans if begin <= at < end), default=base)
        if not found or found[-1][1] != holds:
            found.append((at, holds))
    return found


def _spans(hours: Sequence[Hours], day: date, zone: ZoneInfo) -> Iterator[tuple[datetime, datetime, int]]:
    for each in hours:
        if day.weekday() in each.days:
            until = day if each.end > each.start else day + _DAY
            yield _instant(day, each.start, zone), _instant(until, each.end, zone), each.capacity


def _instant(day: date, minutes: int, zone: ZoneInfo) -> datetime:
    return zones.place(datetime.combine(day, time()) + timedelta(minutes=minutes), zone).instant


def window_start(period: str, zone: ZoneInfo, now: datetime) -> datetime:
    """Return the start of the window at `now`, in UTC. An hour begins when the clock of the zone strikes."""
    local = now.astimezone(zone)
    if period == "hour":
        return _last_strike(zone, now.astimezone(UTC))
    back = {"day": 0, "week": local.weekday(), "month": local.day - 1}[period]
    return _instant(local.date() - back * _DAY, 0, zone)


def _last_strike(zone: ZoneInfo, now: datetime) -> datetime:
    """Return the last full hour of the clock at or before `now`: where it was changed since, the last before that."""
    struck = now - _past_the_hour(now.astimezone(zone))
    if struck.astimezone(zone).utcoffset() == now.astimezone(zone).utcoffset():
        return struck
    before = zones.change_between(zone, struck, now) - MICROSECOND
    return before - _past_the_hour(before.astimezone(zone))


def _past_the_hour(local: datetime) -> timedelta:
    return timedelta(minutes=local.minute, seconds=local.second, microseconds=local.microsecond)


def window_ends(period: str, zone: ZoneInfo, now: datetime, count: int) -> list[datetime]:
    """Return the ends of the window that `now` is in and of those after it, in UTC."""
    ends: list[datetime] = []
    begin = window_start(period, zone, now)
    while len(ends) < count:
        begin = _next_start(period, zone, begin)
        ends.append(begin)
    return ends


def _next_start(period: str, zone: ZoneInfo, begin: datetime) -> datetime:
    """Search ahead for the next start: clock changes make a window shorter or longer than usual."""
    step = {"hour": timedelta(hours=1), "day": _DAY, "week": 7 * _DAY, "month": 31 * _DAY}[period] / 12
    within = begin + step
    while (found := window_start(period, zone, within)) <= begin:
        within += step
    return found
