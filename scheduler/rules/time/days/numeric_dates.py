"""Dates in numbers: `24/11/2026`, `24.12.26`, `24/12`. Only one of the orders of day and month may fit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import date

from duetime.scheduler.rules.time.days.week_numbers import with_week_dates
from duetime.scheduler.rules.time.time_of_day import with_plain_clock
from duetime.scheduler.rules.time.tokens import MONTH_NAMES, Misread

_NUMERIC = re.compile(r"(?<![0-9])([0-9]{1,4})([-/.])([0-9]{1,2})(?:\2([0-9]{1,4}))?(?![0-9])")
_YEAR = re.compile(r"[0-9]{4}")
_SHORT_YEAR = re.compile(r"[0-9]{2}")
_CENTURY = "20"
_LEAP_YEAR = 2024


def iso_date(clean: str) -> str:
    """Write a numeric date as ISO if it can be only one; raise `Misread` if day and month could be exchanged."""
    clean = with_week_dates(clean)
    found = _NUMERIC.search(clean)
    if found is None or (found[4] is None and found[2] == "."):  # 1.5 is a number
        return clean
    first, second, third, clean = found[1], found[3], found[4] or "", with_plain_clock(clean)
    if _YEAR.fullmatch(first) and third:
        return clean.replace(found[0], _iso(first, second, third))
    if _SHORT_YEAR.fullmatch(third) or (not third and found[2] == "/" and len(first) < len(_CENTURY) + 1):
        days = dict.fromkeys(_short(first, second, third, found[2]))
        return _only(found[0], [clean.replace(found[0], day) for day in days])
    if _YEAR.fullmatch(first) or not _YEAR.fullmatch(third):
        raise Misread(f"{found[0]} does not say which number is the day, the month and the year")
    day_first = clean.replace(found[0], _iso(third, second, first))
    month_first = clean.replace(found[0], _iso(third, first, second))
    if day_first != month_first and max(int(first), int(second)) <= len(MONTH_NAMES):
        raise Misread(f"{found[0]} can be read day first or month first", day_first, month_first)
    return day_first if int(second) < int(first) else month_first


def _iso(year: str, month: str, day: str) -> str:
    return f"{year}-{int(month):02}-{int(day):02}"


def _short(first: str, second: str, third: str, sign: str) -> Iterator[str]:
    """Yield the dates that a year of two digits, or none, can mean: with points the year is the last of them."""
    orders = [(third, second, first), (third, first, second)]
    orders += [(first, second, third)] if third and sign != "." else []
    for year, month, day in orders:
        with suppress(ValueError):
            found = date(int(f"{_CENTURY}{year}") if third else _LEAP_YEAR, int(month), int(day))
            yield found.isoformat() if third else f"{found.day} {MONTH_NAMES[found.month - 1].lower()}"


def _only(written: str, texts: list[str]) -> str:
    """Return the one text that a date can mean."""
    if not texts:
        raise Misread(f"{written} is no date")
    if len(texts) > 1:
        which = "which number is the day, the month and the year" if written.count("/") != 1 else "which is the month"
        raise Misread(f"{written} does not say {which}", *texts)
    return texts[0]
