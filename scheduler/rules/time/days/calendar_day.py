"""Dates as they are read, and the arithmetic of the calendar."""

from __future__ import annotations

from calendar import monthrange
from dataclasses import dataclass
from datetime import date, timedelta

from duetime.scheduler.rules.time.time_of_day import Clock
from duetime.scheduler.rules.time.tokens import MONTH_NAMES, WEEKDAY_NAMES, Misread

_DAY = timedelta(days=1)
_FRIDAY_WEEKDAY = 4
FIRST_YEAR, LAST_YEAR = 1900, 9000


@dataclass(frozen=True, slots=True)
class Day:
    """A date as it was read: the dates it can mean, nearest first, and what was assumed.

    `note` may contain `{day}` for the date that was chosen. `clock` is the time of day that the words carry themselves.
    """

    candidates: tuple[date, ...]
    note: str | None = None
    clock: Clock | None = None
    tonight: bool = False
    every: str = ""
    """`week`, `month` or `year` where the words name one day of each."""
    period: str = ""
    """`week`, `month` or `year` where the words name all of it, and its first day stands for it."""


def add_months(day: date, months: int) -> date:
    """Return the same day `months` later, or the last day of that month when it is shorter."""
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    if not date.min.year <= year <= date.max.year:
        raise Misread("that is too long")
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def add_business_days(day: date, count: int) -> date:
    """Return the day `count` Mondays to Fridays after `day`."""
    weeks, rest = divmod(count, 5)
    while day.weekday() > _FRIDAY_WEEKDAY:  # counting from a weekend is counting from the Friday before it
        day -= _DAY
    day += timedelta(weeks=weeks)
    for _ in range(rest):
        day += timedelta(days=3 if day.weekday() == _FRIDAY_WEEKDAY else 1)
    return day


def make_date(year: int, month: int, day: int) -> date:
    """Return a date, or raise `Misread` with the last day of that month."""
    if month not in range(1, 13):
        raise Misread(f"there is no month {month}")
    if not FIRST_YEAR <= year <= LAST_YEAR:
        raise Misread(f"the year {year} is out of range")
    last = monthrange(year, month)[1]
    if not 1 <= day <= last:
        raise Misread(f"{MONTH_NAMES[month - 1]} {year} has {last} days", f"{year:04}-{month:02}-{last:02}")
    return date(year, month, day)


def day_text(day: date) -> str:
    """Write a date as people do: `Tue 24 Nov 2026`."""
    return f"{WEEKDAY_NAMES[day.weekday()][:3]} {day.day} {MONTH_NAMES[day.month - 1][:3]} {day.year:04}"


def start_of(unit: str, day: date) -> date:
    """Return the first day of the day, week (from Monday), month, quarter or year of `day`."""
    starts = {
        "day": day,
        "week": day - timedelta(days=day.weekday()),
        "month": day.replace(day=1),
        "quarter": day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1),
        "year": day.replace(month=1, day=1),
    }
    return starts[unit]


def next_start(unit: str, start: date) -> date:
    """Return the first day of the day, week, month, quarter or year after the one that begins at `start`."""
    days = {"day": 1, "week": 7}.get(unit)
    return start + timedelta(days=days) if days else add_months(start, {"quarter": 3, "year": 12}.get(unit, 1))
