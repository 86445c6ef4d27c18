"""Reads the dates that a series leaves out: dates, days in words, and ranges of days such as `14 Dec to 3 Jan`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.rules.recurrence.recurrence import parse
from duetime.scheduler.rules.time.days.dates import read_last_day
from duetime.scheduler.rules.time.days.named_days import PUBLIC_HOLIDAY
from duetime.scheduler.rules.time.languages import translation
from duetime.scheduler.rules.time.tokens import WEEKDAY_NAMES, WEEKDAYS, Misread, tokens

MAX_DATES_LEFT_OUT = 50
_DAY: Final = timedelta(days=1)
_MAX_SHOWN_CHARS: Final = 40
_MAX_SHOWN_ENTRIES: Final = 6
_RANGE: Final = re.compile(r"(?:from )?(.+?)(?: to | until | through |\.\.)(.+)")
_WITH_POINTS: Final = re.compile(r"([0-9]{1,2})\. ?([0-9]{1,2})\. ?([0-9]{4})?")
"""A date of many languages, the day first; it is corrected, as others put the month first."""

_WEEKDAY: Final = re.compile(r"(?:(?:on|every|each|all) )*([a-z]+?)s?")
_HOLIDAYS: Final = (*PUBLIC_HOLIDAY, "holidays")
_ANY_CALENDAR: Final = "US"
_ACCEPTED: Final = (
    f"up to {MAX_DATES_LEFT_OUT} dates, such as '2026-12-24', 'christmas' or '24 dec to 2 jan'; "
    "days of the week and public holidays are left out in `repeat`"
)


def excluded_dates(argument: str, given: Any, today: date, repeat: str) -> tuple[date, ...]:
    """Return the dates in order, as they are meant on `today`, of a series that recurs by `repeat`.

    Raises InvalidArgument, with a corrected rule for days of the week and public holidays.
    """
    several = [given] if isinstance(given, str | date) else given
    if not isinstance(several, Sequence):
        raise _refusal(argument, "it is not a list of dates", _shown([today + _DAY]))
    of_rule = {str(one): name for one in several if (name := _day_of_rule(one))}
    read = [(one, _days_of(one, today)) for one in several if str(one) not in of_rule]
    wrong = [one for one, found in read if not found]
    days = sorted({day for _, found in read for day in found})
    for one in wrong:
        days.append(_meant(one, today, days))
    if of_rule:
        raise _refusal(argument, *_in_the_rule(of_rule, days, today, repeat))
    if wrong:
        raise _refusal(argument, f"{_quoted(wrong)} {'are not dates' if wrong[1:] else 'is not a date'}", _shown(days))
    if len(days) > MAX_DATES_LEFT_OUT:
        raise _refusal(argument, f"{len(days)} dates are too many", _shown(days[:MAX_DATES_LEFT_OUT]))
    return tuple(days)


def _in_the_rule(of_rule: Mapping[str, str], dates: Sequence[date], today: date, repeat: str) -> tuple[str, str]:
    """Return what is wrong with entries that are days of a rule, each with its day, and the example.

    Where this rule cannot leave them out, the example has the next such dates.
    """
    days = tuple(dict.fromkeys(of_rule.values()))
    rule = _rule_without(days, today, repeat)
    if rule is None:
        coming = {day for name in days for day in _days_of(name, today)}
        example = _shown(sorted({*dates, *coming}))
    else:
        example = f"repeat={rule!r}, except={_shown(dates)}"
    every = "days of the rule" if _HOLIDAYS[0] in days else "a day of every week"
    return f"{_quoted(list(of_rule))}: `repeat` leaves out {every}", example


def _rule_without(days: Sequence[str], today: date, repeat: str) -> str | None:
    """Return the rule without these days, in its own words or in those that describe it; None where it has none."""
    anchor = datetime.combine(today, time(), UTC)
    with suppress(InvalidArgument):
        for words in (repeat.strip(), parse(repeat, zone="UTC", anchor=anchor, holidays=_ANY_CALENDAR).text):
            named = [day for day in days if day not in _HOLIDAYS or day not in words.lower()]
            rule = "".join([words, *(f" except {day}" for day in named)])
            with suppress(InvalidArgument):
                parse(rule, zone="UTC", anchor=anchor, holidays=_ANY_CALENDAR)
                return rule
    return None


def _day_of_rule(given: Any) -> str:
    """Return the day that a rule leaves out, `friday` or `public holidays`; nothing for a single date."""
    text = str(given).strip().lower()
    if text in _HOLIDAYS:
        return _HOLIDAYS[0]
    with suppress(Misread):
        text = translation.twin(text) or text
    found = _WEEKDAY.fullmatch(text)
    weekday = WEEKDAYS.get(found[1]) if found else None
    return "" if weekday is None else WEEKDAY_NAMES[weekday].lower()


def _meant(given: Any, today: date, taken: Sequence[date]) -> date:
    """Return the date that an unreadable entry most likely means; for others a coming one, to show the form."""
    found = _WITH_POINTS.fullmatch(str(given).strip())
    if found:
        with suppress(ValueError):
            meant = date(int(found[3] or today.year), int(found[2]), int(found[1]))
            return meant if found[3] or meant >= today else meant.replace(year=today.year + 1)
    return next(day for ahead in range(1, len(taken) + 2) if (day := today + ahead * _DAY) not in taken)


def _quoted(entries: Sequence[Any]) -> str:
    shown = ", ".join(repr(str(one)[:_MAX_SHOWN_CHARS]) for one in entries[:_MAX_SHOWN_ENTRIES])
    return f"{shown} and {len(entries) - _MAX_SHOWN_ENTRIES} more" if entries[_MAX_SHOWN_ENTRIES:] else shown


def _shown(dates: Sequence[date]) -> str:
    return repr([day.isoformat() for day in dates]) if dates else "null"


def _refusal(argument: str, problem: str, example: str) -> InvalidArgument:
    return InvalidArgument(argument, problem, accepted=_ACCEPTED, example=example)


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
        row = tokens(translation.twin(text) or text)
        found = read_last_day(row, today)
        if found is not None and row.done and not found.period:
            yield next((day for day in found.candidates if day >= today), found.candidates[0])
