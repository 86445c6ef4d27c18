"""Dates in words: `tomorrow`, `next tuesday`, `nov 24`, `end of month`, `in 3 business days`."""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import date, time, timedelta

from duetime.scheduler.rules.time.days.calendar_day import (
    Day,
    add_business_days,
    add_months,
    day_text,
    make_date,
    next_start,
    start_of,
)
from duetime.scheduler.rules.time.days.named_days import add_working_days, read_named_day
from duetime.scheduler.rules.time.days.periods import (
    PERIOD_WORDS,
    read_day_of_month,
    read_end_of,
    read_month_as_end,
    read_next_period,
    read_period_as_end,
    read_start_of,
    read_weekend,
)
from duetime.scheduler.rules.time.days.week_numbers import read_week_number
from duetime.scheduler.rules.time.time_of_day import Clock
from duetime.scheduler.rules.time.tokens import (
    MONTH_NAMES,
    MONTHS,
    NUMBERS,
    WEEKDAY_NAMES,
    WEEKDAYS,
    Misread,
    Tokens,
    is_year,
    ordinal,
)

_DAY = timedelta(days=1)
_MAX_LEAP_DAY_YEARS = 9
_LEAP_YEAR = 2024
_MAX_BUSINESS_DAYS = 2000
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DAY_NUMBER = re.compile(r"[0-9]{1,2}")


def read_day(row: Tokens, today: date, holidays: str = "") -> Day | None:
    """Read a date if one comes next, as seen on `today`; raise `Misread` for a date that is not in the calendar.

    `holidays` is the calendar of public holidays, empty where none is configured.
    """
    _ = row.accept("on") or row.accept("by")
    _ = row.peek(1) == "coming" and row.accept("this", "the")
    found = (row.attempt(read, today) for read in _READERS)
    day = row.attempt(read_day_of_month, today, holidays) or next((day for day in found if day is not None), None)
    return day or row.attempt(_business, today, holidays) or row.attempt(read_named_day, today, holidays)


def read_last_day(row: Tokens, today: date, holidays: str = "", *, whole: bool = False) -> Day | None:
    """Read the last day of something: a date, or a month, which ends it as it begins, or with `whole` as it ends."""
    _ = row.accept("on", "by", "within")
    period = row.attempt(read_period_as_end, today)
    return period or row.attempt(read_day, today, holidays) or row.attempt(read_month_as_end, today, whole=whole)


def read_day_before(row: Tokens, today: date, holidays: str = "") -> Day | None:
    """Read what something has to end before: the last day before a day or a month; with a time of day, the day."""
    day = row.attempt(read_day, today, holidays)
    if day is None:
        return row.attempt(read_month_as_end, today, whole=False)
    if day.clock or not row.done:
        return day
    begins = (found for found in day.candidates if found - _DAY not in day.candidates)  # a weekend has two days
    return Day(tuple(found - _DAY for found in begins), "read as by the end of {day}")


def _iso(row: Tokens, _today: date) -> Day | None:
    start, token = row.position, row.take()
    if not _ISO.fullmatch(token):
        return None
    day = _made(row, start, int(token[:4]), int(token[5:7]), int(token[8:]))
    _ = ":" in row.peek(1) and row.accept("t")
    return Day((day,))


def _made(row: Tokens, start: int, year: int, month: int, day: int) -> date:
    """Make the date that was read since `start`; what is wrong with it is corrected in the whole text."""
    try:
        return make_date(year, month, day)
    except Misread as error:
        raise Misread(error.problem, *(row.replaced(start, example) for example in error.examples)) from None


def _near(row: Tokens, today: date) -> Day | None:
    if row.phrase("the day after tomorrow") or row.phrase("day after tomorrow"):
        return Day((today + 2 * _DAY,))
    if row.accept("today") or (row.accept("this") and row.peek() in {"morning", "afternoon", "evening"}):
        return Day((today,))
    if row.accept("tonight"):
        return Day((today,), clock=Clock(time(20), "tonight read as 20:00", part="night"), tonight=True)
    if row.accept("tomorrow"):
        return Day((today + _DAY + row.accept("week") * 7 * _DAY,))
    return Day((today - _DAY,)) if row.accept("yesterday") else None


def _business(row: Tokens, today: date, holidays: str) -> Day | None:
    after = row.accept("in")
    count = 1 if row.accept("next") else _count(row)
    kind = row.take() in {"business", "working", "work"} and row.accept("day", "days")
    workday = row.peek(-1) in {"workday", "workdays", "weekday"} and (row.peek(-2) == "next" or after)
    if count is None or not (kind or workday):
        return None
    if not after and row.peek(-3) != "next" and not workday and not row.phrase("from now"):
        return None
    if count > _MAX_BUSINESS_DAYS:
        raise Misread("that is more than 5 years ahead")
    if not holidays:
        unknown = "business days are Monday to Friday, holidays are not known: {day}"
        return Day((add_business_days(today, count),), unknown)
    known = f"business days are Monday to Friday without the public holidays of {holidays}: {{day}}"
    return Day((add_working_days(today, count, holidays),), known)


def _count(row: Tokens) -> int | None:
    token = row.take()
    return int(token) if token.isdigit() else NUMBERS.get(token)


def _checked_weekday(row: Tokens, today: date) -> Day | None:
    """Read `Tue 24 Nov 2026`: the weekday must be that of the date."""
    start, weekday = row.position, row.one_of(WEEKDAYS)
    row.accept(",")
    day = row.attempt(_calendar, today) or row.attempt(_iso, today)
    if weekday is None or day is None:
        return None
    fitting = tuple(found for found in day.candidates if found.weekday() == weekday)
    if not fitting or len(day.candidates) == 1 != len(fitting):
        first = day.candidates[0]
        raise Misread(
            f"{day_text(first)[4:]} is a {WEEKDAY_NAMES[first.weekday()]}, not a {WEEKDAY_NAMES[weekday]}",
            row.replaced(start, first.isoformat()),
        )
    return Day(fitting, "read as {day}" if len(day.candidates) > 1 else day.note, every=day.every)


def _weekday(row: Tokens, today: date) -> Day | None:
    start, which = row.position, row.one_of(PERIOD_WORDS)
    named = row.peek()
    weekday = row.one_of(WEEKDAYS)
    if weekday is None:
        return None
    ahead = today + timedelta(days=(weekday - today.weekday()) % 7)
    days: tuple[date, ...]
    note: str | None
    if which == "next":
        ahead += timedelta(days=7 * (ahead == today))
        return Day((ahead,), f"next {named} read as the first {WEEKDAY_NAMES[weekday]} after today, {{day}}")
    if which == "this":
        return _of_this_week(row, start, today, weekday)
    if row.phrase("next week"):
        return Day((next_start("week", start_of("week", today)) + timedelta(days=weekday),))
    if not which and row.accept("week"):  # `friday week`
        days, note, every = (ahead + 7 * _DAY,), f"{named} week read as {{day}}", ""
    elif ahead == today:
        note, every = f"today is a {WEEKDAY_NAMES[weekday]}: {named} read as {{day}}", "week"
        days = (today, today + 7 * _DAY)
    else:
        days, note, every = (ahead,), None, "" if which else "week"
    return Day(days, note, every=every)


def _of_this_week(row: Tokens, start: int, today: date, weekday: int) -> Day:
    day = start_of("week", today) + timedelta(days=weekday)
    if day < today:
        coming = row.replaced(start, (day + 7 * _DAY).isoformat())
        raise Misread(f"this {row.peek(-1)} is in the past: it was {day_text(day)}", coming)
    return Day((day,))


def _calendar(row: Tokens, today: date) -> Day | None:
    """Read `nov 24`, `24th of november 2026`, `the 24th`."""
    start = row.position
    row.accept("the")
    month = row.one_of(MONTHS)
    row.accept("the")
    number = _day_number(row)
    if number is None:
        return None
    if month is None:
        row.accept("of")
        month = row.one_of(MONTHS)
    if month is None:
        return _day_of_month(number, today) if row.peek(-1)[:1].isdigit() and ordinal(row.peek(-1)) else None
    row.accept(",") if row.peek(1).isdigit() else None
    if is_year(row.peek()):
        return Day((_made(row, start, int(row.take()), month, number),))
    if number > monthrange(_LEAP_YEAR, month)[1]:
        coming = row.replaced(start, _last_day(month, today).isoformat())
        raise Misread(f"{MONTH_NAMES[month - 1]} has no day {number}", coming)
    return _day_of_year(month, number, today)


def _day_number(row: Tokens) -> int | None:
    token = row.take()
    found = int(token) if _DAY_NUMBER.fullmatch(token) else ordinal(token)
    if found is not None and found not in range(1, 32):
        raise Misread(f"no month has a day {token}")
    return found


def _last_day(month: int, today: date) -> date:
    """Return the last day of the next such month that is not over."""
    year = today.year + (month < today.month)
    return date(year, month, monthrange(year, month)[1])


def _day_of_year(month: int, number: int, today: date) -> Day:
    years = range(today.year, today.year + _MAX_LEAP_DAY_YEARS)
    days = tuple(date(year, month, number) for year in years if number <= monthrange(year, month)[1])
    coming = tuple(day for day in days if day >= today)
    note = None if coming[0].year == today.year else "no year given: read as {day}"
    return Day(coming[:2], note, every="year")


def _day_of_month(number: int, today: date) -> Day:
    first = today.replace(day=1)
    months = (add_months(first, ahead) for ahead in range(4))
    days = (start + timedelta(days=number - 1) for start in months if number <= monthrange(start.year, start.month)[1])
    return Day(tuple(day for day in days if day >= today)[:2], "no month given: read as {day}", every="month")


_PERIODS = (read_weekend, read_start_of, read_end_of, read_next_period)
_READERS = (_iso, _near, *_PERIODS, read_week_number, _checked_weekday, _weekday, _calendar)
