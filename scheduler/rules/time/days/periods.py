"""Weeks, months and years in words: `this weekend`, `end of month`, `next week`, `june` as an end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date, time, timedelta

from duetime.scheduler.rules.time.days.calendar_day import Day, add_months, make_date, next_start, start_of
from duetime.scheduler.rules.time.days.named_days import is_public_holiday
from duetime.scheduler.rules.time.days.week_numbers import read_week_number
from duetime.scheduler.rules.time.time_of_day import Clock
from duetime.scheduler.rules.time.tokens import (
    MONTH_NAMES,
    MONTHS,
    ORDINAL_INDEX,
    WEEKDAYS,
    Misread,
    Tokens,
    is_year,
    ordinal,
)

_DAY = timedelta(days=1)
_FRIDAY_WEEKDAY = 4
END_OF_DAY = time(23, 59)
_PERIODS = {unit: unit for unit in ("week", "month", "quarter", "year")}
PERIOD_WORDS = {"next": "next", "this": "this", "coming": "coming"}


def read_period_as_end(row: Tokens, today: date) -> Day | None:
    """Read `this week`, `next month`, `week 50` and `the weekend` as the end of something, which is its last day."""
    week = row.attempt(read_week_number, today)
    if week:
        return week if not week.period else _last_of(week)
    coming = row.attempt(read_next_period, today)
    if coming:
        return coming if not coming.period else _last_of(coming)
    weekend = row.attempt(read_weekend, today, last=True)
    if weekend or not row.accept("this"):
        return weekend
    unit = row.one_of(_PERIODS)
    if unit is None:
        return None
    last = next_start(unit, start_of(unit, today)) - _DAY
    return Day((last,), f"this {unit} read as its last day, {{day}}")


def _last_of(period: Day) -> Day:
    days = tuple(next_start(period.period, day) - _DAY for day in period.candidates)
    return replace(period, candidates=days, note=(period.note or "").replace("first", "last"))


def read_weekend(row: Tokens, today: date, *, last: bool = False) -> Day | None:
    """Read a weekend as the day of it that comes, or as its `last` one."""
    start, which = row.position, row.one_of(PERIOD_WORDS)
    _ = which or row.accept("the")
    if not row.accept("weekend"):
        return None
    saturday = start_of("week", today) + 5 * _DAY
    if which == "next":
        first = saturday + last * _DAY
        both = (row.replaced(start, day.isoformat()) for day in (first, first + 7 * _DAY))
        raise Misread("next weekend can mean the one that comes or the one after it", *both)
    days = (saturday, saturday + _DAY)[last:]
    return Day(tuple(day for day in days if day >= today), "the weekend read as {day}", every="" if which else "week")


def read_end_of(row: Tokens, today: date) -> Day | None:
    short = row.one_of({"eod": "day", "eow": "week", "eom": "month", "eoq": "quarter", "eoy": "year"})
    if short is None:
        _ = row.accept("the")
        if not row.phrase("end of"):
            return None
    later = row.accept("next")
    _ = row.accept("the") or row.accept("this") or row.accept("today")
    month = None if short or later else row.one_of(MONTHS)
    if month is not None:
        return _end_of_month(row, month, today)
    unit = short or ("day" if row.peek(-1) == "today" else row.take())
    if unit not in {"day", "week", "month", "quarter", "year"}:
        return None
    start = start_of(unit, _named_day(row, today) if unit == "day" and not later else today)
    for _step in range(later + 1):
        start = next_start(unit, start)
    return Day((start - _DAY,), f"end of {unit} read as {{day}}", Clock(END_OF_DAY, f"end of the {unit} read as 23:59"))


def _named_day(row: Tokens, today: date) -> date:
    """Read the day of `end of the day tomorrow` and `eod friday`, which is today where there is none."""
    if row.accept("tomorrow"):
        return today + _DAY
    _ = row.peek(1) in WEEKDAYS and row.accept("on")
    weekday = row.one_of(WEEKDAYS)
    return today if weekday is None else today + (weekday - today.weekday()) % 7 * _DAY


def read_start_of(row: Tokens, today: date) -> Day | None:
    """Read `start of next month`, `the beginning of june`; without `next` and `this` it is the one that comes."""
    _ = row.accept("the")
    if not row.phrase("start of") and not row.phrase("beginning of"):
        return None
    _ = row.accept("the")
    which = row.one_of(PERIOD_WORDS)
    month = row.one_of(MONTHS)
    days: tuple[date, ...]
    if month is not None:
        first, dated = _first_of(row, month, today)
        days, name = ((first,) if dated else (first, add_months(first, 12))), MONTH_NAMES[month - 1]
    elif (name := row.take()) in {"week", "month", "quarter", "year"}:
        this = start_of(name, today)
        days = (this, next_start(name, this))
    else:
        return None
    if month is None and which in {"this", "next"}:
        days = days[:1] if which == "this" else days[-1:]
    else:
        days = tuple(day for day in days if day >= today) or days
    return Day(days, f"start of {name} read as {{day}}")


def _end_of_month(row: Tokens, month: int, today: date) -> Day:
    first, dated = _first_of(row, month, today)
    if not dated and add_months(first, 1) <= today:
        first = add_months(first, 12)
    name = MONTH_NAMES[month - 1]
    note = f"end of {name} read as {{day}}"
    return Day((add_months(first, 1) - _DAY,), note, Clock(END_OF_DAY, f"end of {name} read as 23:59"))


def read_month_as_end(row: Tokens, today: date, *, whole: bool) -> Day | None:
    """Read `june` or `june 2027` as the end of something."""
    month = row.one_of(MONTHS)
    if month is None:
        return None
    first, dated = _first_of(row, month, today)
    end = add_months(first, 1) if whole else first
    if end <= today and not dated:
        end = add_months(end, 12)
    say = "through" if whole else "until"
    return Day((end - _DAY,), f"{say} {MONTH_NAMES[month - 1]} read as the end of {{day}}")


def refuse_period_alone(row: Tokens, today: date) -> None:
    """Raise `Misread` for `june`, `in june` and `this week`, which name no day."""
    if row.accept("this") and row.one_of(_PERIODS) is not None and row.done:
        raise Misread(f"this {row.peek(-1)} names no day", f"end of {row.peek(-1)}")
    _ = row.accept("in")
    month = row.one_of(MONTHS)
    if month is None:
        return
    first, dated = _first_of(row, month, today)
    if row.done:
        coming = first if dated or first >= today else add_months(first, 12)
        raise Misread(f"{MONTH_NAMES[month - 1]} alone names no day", coming.isoformat())


def _first_of(row: Tokens, month: int, today: date) -> tuple[date, bool]:
    """Return the first day of a month, and whether its year is given."""
    dated = is_year(row.peek())
    return make_date(int(row.take()) if dated else today.year, month, 1), dated


def read_day_of_month(row: Tokens, today: date, calendar: str) -> Day | None:
    """Read `the first monday of next month`, `last day of june`, `the last business day of the month`."""
    start, _ = row.position, row.accept("the")
    token = row.take()
    nth = ORDINAL_INDEX.get(token) or ordinal(token)
    kind = _kind_of_day(row, calendar) if nth else None
    numbered = kind is None and row.peek() == "of" and row.peek(1) in {"next", "this", "the"} and nth is not None
    if numbered:  # `the 3rd of next month`
        kind = _any_day
    if nth is None or kind is None or not row.accept("of", "in"):
        return None
    _ = row.accept("the")
    which, month = row.one_of(PERIOD_WORDS), row.one_of(MONTHS)
    if (numbered and month is not None) or (month is None and not row.accept("month")):
        return None
    first, step, dated = start_of("month", today), 1, which is not None
    if month is not None:
        (first, dated), step = _first_of(row, month, today), 12
    elif dated and which != "this":
        first = add_months(first, 1)
    days = (_nth_of(add_months(first, ahead), nth, kind) for ahead in range(0, 1 if dated else 2 * step, step))
    found = tuple(day for day in days if day is not None and (dated or day >= today))
    if not found:
        raise Misread("that month has no such day", row.replaced(start, (add_months(first, 1) - _DAY).isoformat()))
    return Day(found, "read as {day}", every="" if dated or which else "year" if month else "month")


def _kind_of_day(row: Tokens, calendar: str) -> Callable[[date], bool] | None:
    weekday = row.one_of(WEEKDAYS)
    if weekday is not None:
        return lambda day: day.weekday() == weekday
    if row.accept("day"):
        return _any_day
    if row.accept("weekday", "workday") or row.phrase("business day") or row.phrase("working day"):
        return lambda day: day.weekday() <= _FRIDAY_WEEKDAY and not is_public_holiday(day, calendar)
    return None


def _any_day(_day: date) -> bool:
    return True


def _nth_of(first: date, nth: int, kind: Callable[[date], bool]) -> date | None:
    """Return the nth such day of a month, counted from its end where that is negative; None if it has too few."""
    length = (add_months(first, 1) - first).days
    days = [day for day in (first + ahead * _DAY for ahead in range(length)) if kind(day)]
    place = nth if nth < 0 else nth - 1
    return days[place] if -len(days) <= place < len(days) else None


def read_next_period(row: Tokens, today: date) -> Day | None:
    unit = row.peek(1)
    if not row.accept("next") or row.take() not in _PERIODS:
        return None
    start = next_start(unit, start_of(unit, today))
    row.accept("on")
    weekday = row.one_of(WEEKDAYS) if unit == "week" else None
    if weekday is not None:
        return Day((start + timedelta(days=weekday),))
    number = row.attempt(_number) if unit == "month" else None
    if number is not None:
        return Day((make_date(start.year, start.month, number),))
    return Day((start,), f"next {unit} read as its first day, {{day}}", period=unit)


def _number(row: Tokens) -> int | None:
    """Read the `on the 3rd` of `next month on the 3rd`."""
    _ = row.accept("the")
    return ordinal(row.take())


def same_day(named: Day, other: date) -> Day:
    """Return the day of a period, which `named` names, that is in it as `other` is in its own."""
    start = start_of(named.period, named.candidates[0])  # the last day stands for a period that ends something
    if named.period == "week":
        found = start + timedelta(days=other.weekday())
    else:
        months = (start.year - other.year) * 12
        of_year = start_of("quarter", other).month if named.period == "quarter" else other.month
        found = add_months(other, months + (start.month - of_year if named.period != "year" else 0))
    return Day((found,), f"the same day of next {named.period} is {{day}}")
