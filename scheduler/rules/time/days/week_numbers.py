"""Weeks by their number in ISO 8601: `week 50`, `friday of week 50`, `2026-W50`, `2026-W50-3`."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import date, timedelta

from duetime.scheduler.rules.time.days.calendar_day import FIRST_YEAR, LAST_YEAR, Day, start_of
from duetime.scheduler.rules.time.tokens import WEEKDAYS, Misread, Tokens, is_year

_WEEK = timedelta(weeks=1)
_NAMES = ("week", "w", "wk", "cw")
_KINDS = ("calendar", "iso")
_MAX_NUMBER_VALUE = 53
_MAX_YEARS_BETWEEN = 8
"""A year of 53 weeks comes after so many others at most."""

_DATE = re.compile(r"(?<![0-9-])([0-9]{4})(-?)w([0-5][0-9])\2([1-7])(?![0-9-])")


def with_week_dates(clean: str) -> str:
    """Return a text with `2026-W50-3` as the date that it is."""
    return _DATE.sub(_as_date, clean)


def _as_date(found: re.Match[str]) -> str:
    return _day_of(int(found[1]), int(found[3]), int(found[4])).isoformat()


def read_week_number(row: Tokens, today: date) -> Day | None:
    """Read a week by its number, which its Monday stands for, or one day of it; without a year the one that comes."""
    _ = row.accept("in")
    weekday = _weekday(row)
    _ = row.accept("of", "in")
    _ = row.accept("the")
    year = int(row.take()) if is_year(row.peek()) else None
    _ = year and row.accept("-")
    _ = row.accept(*_KINDS)
    if not row.accept(*_NAMES) or not row.peek().isdigit():
        return None
    number = int(row.take()[:4])
    if year is None:
        year = _year_behind(row)
    weekday = _weekday(row) if weekday is None else weekday
    day = 1 if weekday is None else weekday + 1
    note = f"week {number} read as its first day, {{day}}" if weekday is None else f"week {number}: read as {{day}}"
    days = _coming(number, day, today) if year is None else (_day_of(year, number, day),)
    return Day(days, note, every="" if year else "year", period="" if weekday is not None else "week")


def _weekday(row: Tokens) -> int | None:
    _ = row.peek(1) in WEEKDAYS and row.accept("on", ",")
    return row.one_of(WEEKDAYS)


def _year_behind(row: Tokens) -> int | None:
    """Read the year of `week 50 of 2026` and `week 50/2026`."""
    _ = is_year(row.peek(1)) and row.accept("of", "in", "/", ",")
    return int(row.take()) if is_year(row.peek()) else None


def _coming(number: int, day: int, today: date) -> tuple[date, ...]:
    """Return the days of the next two such weeks, of the present one alone where it is that."""
    found = []
    for year in range(today.isocalendar().year, today.isocalendar().year + _MAX_YEARS_BETWEEN):
        with suppress(ValueError):
            found.append(date.fromisocalendar(year, number, day))
    this = start_of("week", today)
    coming = tuple(each for each in found if each >= this)
    if not coming:
        raise Misread(f"there is no week {number}, as a year has up to {_MAX_NUMBER_VALUE}")
    return coming[:1] if coming[0] < this + _WEEK else coming[:2]


def _day_of(year: int, number: int, day: int) -> date:
    """Return a day of a week, or raise `Misread` with the last week of that year."""
    if not FIRST_YEAR <= year <= LAST_YEAR:
        raise Misread(f"the year {year} is out of range")
    try:
        return date.fromisocalendar(year, number, day)
    except ValueError:
        last = date(year, 12, 28).isocalendar().week
        raise Misread(f"{year} has {last} weeks", date.fromisocalendar(year, last, day).isoformat()) from None
