"""When a recurrence fires, by brute force: every minute of a window is looked at, one after the other.

Written from the definitions, and apart from the code under test: it shares nothing with it but the zone data.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

from duetime.scheduler.rules.time import zones

MINUTE = timedelta(minutes=1)
MINUTES_PER_DAY = 24 * 60
LOOK_AHEAD = tuple(step * MINUTE for step in range(15))
DAY_NAMES = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
CODES = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")

ZONES = (
    "America/New_York", "Europe/London", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca", "Asia/Kathmandu",
    "America/Edmonton", "UTC", "Africa/Cairo", "Africa/El_Aaiun", "America/Adak", "America/Anchorage",
    "America/Asuncion", "America/Chicago", "America/Denver", "America/Halifax", "America/Havana", "America/Los_Angeles",
    "America/Miquelon", "America/Nuuk", "America/Phoenix", "America/Santiago", "America/Sao_Paulo",
    "America/Scoresbysund", "America/St_Johns", "America/Tijuana", "America/Vancouver", "Antarctica/Troll",
    "Asia/Almaty", "Asia/Beirut", "Asia/Gaza", "Asia/Jerusalem", "Asia/Kolkata", "Asia/Tehran", "Asia/Tokyo",
    "Atlantic/Azores", "Australia/Adelaide", "Australia/Eucla", "Australia/Sydney", "Europe/Berlin", "Europe/Chisinau",
    "Europe/Dublin", "Europe/Kyiv", "Europe/Lisbon", "Pacific/Auckland", "Pacific/Chatham", "Pacific/Easter",
    "Pacific/Norfolk",
)  # fmt: skip


@dataclass(frozen=True)
class Definition:
    """A rule as it is defined: which days, and which times of day, or how many minutes apart.

    `hours` None means every hour, counted as instants pass. `every` is an interval in minutes from the anchor.
    """

    text: str
    day: Callable[[date, date], bool]
    hours: frozenset[int] | None = None
    minutes: frozenset[int] = field(default_factory=frozenset)
    every: int = 0


@lru_cache(maxsize=256)
def walls(zone: str, start: datetime, minutes: int) -> Sequence[datetime]:
    """Return what the clocks of a zone show at each minute of a window."""
    tz, shown = zones.load(zone), list[datetime]()
    while len(shown) < minutes:
        at = start + len(shown) * MINUTE
        wall, then = (each.astimezone(tz) for each in (at, at + LOOK_AHEAD[-1] + MINUTE))
        if wall.utcoffset() == then.utcoffset():  # no clock is changed twice within so little time
            shown += [wall.replace(tzinfo=None) + ahead for ahead in LOOK_AHEAD]
        else:
            shown += [(at + ahead).astimezone(tz).replace(tzinfo=None) for ahead in LOOK_AHEAD]
    return shown[:minutes]


@lru_cache(maxsize=64)
def transitions(zone: str) -> tuple[datetime, ...]:
    """Return the minutes from 2024 to 2035 at which the clocks of a zone jump, at most once in a day."""
    found = []
    tz = zones.load(zone)
    here = datetime(2024, 1, 1, tzinfo=UTC)
    before = here.astimezone(tz).utcoffset()
    while here.year < 2036:
        there = here + timedelta(days=1)
        after = there.astimezone(tz).utcoffset()
        if after != before:
            minutes = range(1, MINUTES_PER_DAY + 1)
            jump = bisect(minutes, False, key=lambda n: (here + n * MINUTE).astimezone(tz).utcoffset() == after)
            found.append(here + minutes[jump] * MINUTE)
        here, before = there, after
    return tuple(found)


def firings(rule: Definition, zone: str, anchor: datetime, start: datetime, minutes: int) -> list[datetime]:
    """Return the instants of a window at which a rule fires; the window must not start within an hour shown twice."""
    shown = walls(zone, start, minutes)
    anchor_day = anchor.astimezone(zones.load(zone)).date()
    fires = _by_instants(rule, anchor, start, shown) if rule.hours is None else _by_walls(rule, shown)
    days = {wall.date(): rule.day(wall.date(), anchor_day) for wall in {wall for step, wall in fires}}
    return sorted(
        {start + step * MINUTE for step, wall in fires if days[wall.date()] and start + step * MINUTE >= anchor}
    )


def _by_instants(
    rule: Definition, anchor: datetime, start: datetime, shown: Sequence[datetime]
) -> list[tuple[int, datetime]]:
    """Fire whenever the clocks show such a minute, or so many minutes have passed since the anchor."""
    if rule.every:
        return [
            (step, wall)
            for step, wall in enumerate(shown)
            if (start + step * MINUTE - anchor) // MINUTE % rule.every == 0
        ]
    return [(step, wall) for step, wall in enumerate(shown) if wall.minute in rule.minutes]


def _by_walls(rule: Definition, shown: Sequence[datetime]) -> list[tuple[int, datetime]]:
    """Fire when the clocks reach such a wall time for the first time; what they jump over is reached at the jump."""
    fires = []
    highest = shown[0] - MINUTE
    for step, wall in enumerate(shown):
        while highest < wall:
            highest += MINUTE
            if highest.hour in (rule.hours or ()) and highest.minute in rule.minutes:
                fires.append((step, highest))
    return fires
