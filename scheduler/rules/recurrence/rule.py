"""A recurrence rule as a value, and its canonical form."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from itertools import product

SECONDLY, MINUTELY, HOURLY, DAILY, WEEKLY, MONTHLY, YEARLY = FREQUENCIES = (
    "SECONDLY", "MINUTELY", "HOURLY", "DAILY", "WEEKLY", "MONTHLY", "YEARLY",
)  # fmt: skip
SUB_DAILY = frozenset({SECONDLY, MINUTELY, HOURLY})
MAX_INTERVALS = dict(zip(FREQUENCIES, (630_720_000, 10_512_000, 175_200, 7_300, 1_000, 240, 20), strict=True))
"""About 20 years of each."""

MAX_COUNT = 1_000
EXCEPT_HOLIDAYS = "X-EXCEPT-HOLIDAYS"
"""The part of a rule that no RFC has: the calendar of the public holidays that it leaves out."""

RARE_NOTE = " (in months that have it)"
"""Says of a day that some of the months of its rule lack it."""

DAY_CODES = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
NO_VALUES: frozenset[int] = frozenset()
WORKDAYS = frozenset((0, day) for day in range(5))
MAX_WORKDAYS = 23
"""The most that a month has."""


@dataclass(frozen=True, slots=True)
class Rule:
    """When something recurs. Empty parts restrict nothing.

    `weekdays` are pairs (ordinal, weekday): ordinal 0 is every one, 1 the first of the month, -1 the last. `positions`
    choose among the days of a month that the rest of the rule leaves: -1 is the last of them. `times` are the times of
    day that words name; cron and RRULE give `hours` and `minutes`, which are combined. `either` means that one of month
    day and weekday is enough (cron), not both. `until` is inclusive: a UTC instant, or a wall time of the
    rule's zone. `cron` is the rule as five fields, empty for all others. `holidays` is the calendar whose public
    holidays the rule leaves out, empty for none.
    """

    freq: str
    interval: int = 1
    months: frozenset[int] = NO_VALUES
    monthdays: frozenset[int] = NO_VALUES
    weekdays: frozenset[tuple[int, int]] = frozenset()
    positions: frozenset[int] = NO_VALUES
    hours: frozenset[int] = NO_VALUES
    minutes: frozenset[int] = NO_VALUES
    times: tuple[time, ...] = ()
    either: bool = False
    until: datetime | date | None = None
    count: int | None = None
    cron: str = ""
    holidays: str = ""

    @property
    def elapsed(self) -> bool:
        """Whether it counts elapsed time, rather than keeping a wall time."""
        return self.freq in SUB_DAILY and not (self.hours and self.interval == 1)

    def clock_times(self, anchor: time) -> tuple[time, ...]:
        """Return its times of day in order; `anchor` is used where the rule names none."""
        if self.times:
            return self.times
        if not self.hours and not self.minutes and self.freq not in SUB_DAILY:
            return (anchor,)
        hours, minutes = sorted(self.hours or {anchor.hour}), sorted(self.minutes or self._default_minutes())
        return tuple(time(hour, minute) for hour, minute in product(hours, minutes))

    def at_time(self, was: time, to: time) -> Rule | None:
        """Return the rule with one of its times of day replaced; None where it cannot be told so (cron's either-or)."""
        if self.either or self.elapsed:
            return None
        times = sorted({to, *self.clock_times(was)} - ({was} - {to}))
        freq = DAILY if self.freq in SUB_DAILY else self.freq
        return replace(self, freq=freq, hours=NO_VALUES, minutes=NO_VALUES, times=tuple(times), cron="")

    def _default_minutes(self) -> Iterable[int]:
        return range(60) if self.freq == MINUTELY else (0,)


def largest_unit(freq: str, interval: int) -> tuple[str, int]:
    """Return an interval of seconds or minutes in the largest unit that divides it."""
    if freq == SECONDLY and interval % 60 == 0:
        freq, interval = MINUTELY, interval // 60
    return (HOURLY, interval // 60) if freq == MINUTELY and interval % 60 == 0 else (freq, interval)


def rule_text(rule: Rule) -> str | None:
    """Write a rule as the five cron fields it came from, or as an RRULE; None when neither can say it."""
    if rule.cron:
        return rule.cron
    rule_times = rule.times
    if rule.positions and len(rule_times) > 1:
        return None  # an RRULE would count the times of day, not the days
    hours = frozenset(found.hour for found in rule_times) or rule.hours
    minutes = frozenset(found.minute for found in rule_times) or rule.minutes
    if rule_times and len(hours) * len(minutes) != len(rule_times):
        return None
    parts = {
        "FREQ": rule.freq,
        "INTERVAL": str(rule.interval) if rule.interval > 1 else "",
        "BYMONTH": _numbers(rule.months),
        "BYMONTHDAY": _numbers(rule.monthdays),
        "BYDAY": ",".join(f"{nth or ''}{DAY_CODES[day]}" for nth, day in sorted(rule.weekdays)),
        "BYHOUR": _numbers(hours),
        "BYMINUTE": _numbers(minutes),
        "BYSETPOS": _numbers(rule.positions),
        EXCEPT_HOLIDAYS: rule.holidays,
        "UNTIL": _until(rule.until),
        "COUNT": str(rule.count or ""),
    }
    return ";".join(f"{name}={value}" for name, value in parts.items() if value)


def _numbers(found: frozenset[int]) -> str:
    return ",".join(map(str, sorted(found)))


def _until(until: datetime | date | None) -> str:
    if until is None:
        return ""
    if not isinstance(until, datetime):
        return f"{until:%Y%m%d}"
    return f"{until:%Y%m%dT%H%M%S}" + ("Z" if until.tzinfo is UTC else "")
