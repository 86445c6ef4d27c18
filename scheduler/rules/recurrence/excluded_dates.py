"""Reads the dates that a series leaves out: dates, days in words, and ranges of days such as `14 Dec to 3 Jan`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from typing import Any, Final

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.rules.time.days.dates import read_last_day
from duetime.scheduler.rules.time.tokens import Misread, tokens

MAX_DATES_LEFT_OUT = 50
_DAY: Final = timedelta(days=1)
_RANGE: Final = re.compile(r"(?:from )?(.+?)(?: to | until | through |\.\.)(.+)")
_ACCEPTED: Final = (
    f"up to {MAX_DATES_LEFT_OUT} dates, such as '2026-12-24', 'christmas' or '24 dec to 2 jan'; "
    "days of the week and public holidays are left out in `repeat`"
)


def excluded_dates(argument: str, given: Any, today: date) -> tuple[date, ...]:
    """Return the dates in order, as they are meant on `today`. Raises InvalidArgument."""
    several = [given] if isinstance(given, str | date) else given
    if not isinstance(several, Sequence):
        raise _refusal(argument, "it is not a list of dates", [])
    read = [_days_of(one, today) for one in several]
    days = sorted({day for found in read for day in found})
    wrong = [one for one, found in zip(several, read, strict=True) if not found]
    if wrong:
        raise _refusal(argument, f"{str(wrong[0])[:40]!r} is not a date", days)
    if len(days) > MAX_DATES_LEFT_OUT:
        raise _refusal(argument, f"{len(days)} dates are too many", days[:MAX_DATES_LEFT_OUT])
    return tuple(days)


def _refusal(argument: str, problem: str, dates: Sequence[date]) -> InvalidArgument:
    shown = [day.isoformat() for day in dates]
    return InvalidArgument(argument, problem, accepted=_ACCEPTED, example=repr(shown) if shown else "null")


def _days_of(given: Any, today: date) -> tuple[date, ...]:
    """Return the days that one entry means; none where it means none."""
    if isinstance(given, date):
        return (given.date() if isinstance(given, datetime) else given,)
    text = str(given).strip().lower()
    ends = _RANGE.fullmatch(text)
    if ends is None:
        return tuple(_day_of(text, today))
    first = next(_day_of(ends[1], today), None)
    last = next(_day_of(ends[2], first), None) if first else None
    if first is None or last is None or not first <= last <= first + MAX_DATES_LEFT_OUT * _DAY:
        return ()
    return tuple(first + number * _DAY for number in range((last - first).days + 1))


def _day_of(text: str, today: date) -> Iterator[date]:
    """Yield the coming day that a text means, if it means one day and no more."""
    with suppress(Misread, OverflowError):
        row = tokens(text)
        found = read_last_day(row, today)
        if found is not None and row.done and not found.period:
            yield next((day for day in found.candidates if day >= today), found.candidates[0])
