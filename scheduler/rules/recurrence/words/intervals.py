"""Intervals in words: `2 weeks`, `other day`, `third week`, `1h30m` become a frequency and its interval."""

from __future__ import annotations

import re
from datetime import timedelta

from duetime.scheduler.rules.recurrence.rule import (
    DAILY,
    HOURLY,
    MINUTELY,
    MONTHLY,
    SECONDLY,
    WEEKLY,
    YEARLY,
    largest_unit,
)
from duetime.scheduler.rules.recurrence.words.day_lists import Draft, read_days
from duetime.scheduler.rules.time.durations import UNITS, Span, read_span
from duetime.scheduler.rules.time.tokens import ORDINAL_INDEX, WEEKDAYS, Misread, Tokens, ordinal

_UNIT_FREQ = {
    "second": SECONDLY, "minute": MINUTELY, "hour": HOURLY, "day": DAILY, "week": WEEKLY, "month": MONTHLY,
    "year": YEARLY,
}  # fmt: skip
_ISO_DAYS = re.compile(r"P([1-9][0-9]{0,3})([DWMY])", re.IGNORECASE)
_ISO_UNITS = {"d": "day", "w": "week", "m": "month", "y": "year"}
_WORKDAY_WORDS = ("weekday", "workday", "business", "working")
_SECOND = timedelta(seconds=1)
ISO_TIME = "pt"
"""The first token of an ISO 8601 duration of hours, minutes and seconds: `PT1H30M`."""


def iso_as_words(text: str) -> str:
    """Return `P1D`, `P2W`, `P1M` or `P1Y` as an interval in words, and any other text as it is."""
    found = _ISO_DAYS.fullmatch(text)
    return f"every {found[1]} {_ISO_UNITS[found[2].lower()]}s" if found else text


def read_interval(row: Tokens, draft: Draft) -> bool:
    """Read `2 weeks`, `day`, `other day`, `other tuesday`, `third week`, `1h30m` into the draft if one comes next."""
    if row.peek(1) == "/":  # `m/w/f`
        return False
    if row.accept("other", "alternate"):
        draft.interval = 2
        if row.peek() in WEEKDAYS or row.peek()[:-1] in WEEKDAYS:
            draft.freq = WEEKLY
            return read_days(row, draft)
        _refuse_other_weekday(row)
    else:
        draft.interval = row.attempt(_nth_unit) or 1
    if row.peek() == "second" and row.peek(1) in {*WEEKDAYS, *_WORKDAY_WORDS, "and", ","}:
        return False
    if row.peek(1) not in {"of", "hour", "hours", "past", "to"} and row.accept("quarter", "quarters"):
        draft.freq, draft.interval = MONTHLY, 3 * draft.interval
        return True
    unit = row.one_of(UNITS)
    if unit is not None:
        return _unit(unit, draft)
    span = row.attempt(_length)
    return span is not None and _span(span, draft)


def _refuse_other_weekday(row: Tokens) -> None:
    """Refuse `every other weekday`, with both of its readings."""
    if row.accept(*_WORKDAY_WORDS):
        _ = row.accept("day")
        rest = f" {row.rest}" if row.rest else ""
        either = (f"every 2 days{rest}", f"every 2 weeks on weekdays{rest}")
        raise Misread("every other weekday can mean every other day, or those of every other week", *either)


def _nth_unit(row: Tokens) -> int | None:
    """Read the ordinal of `third day`; `first day` is one of a month, and a weekday is no unit."""
    word = row.take()
    nth = ORDINAL_INDEX.get(word) or ordinal(word)
    return nth if nth and nth > 1 and row.peek() in UNITS else None


def _length(row: Tokens) -> Span | None:
    if row.phrase("half hour"):
        return Span(elapsed=timedelta(minutes=30))
    row.accept(ISO_TIME)
    return read_span(row)


def _unit(unit: str, draft: Draft) -> bool:
    if unit == "fortnight":
        unit, draft.interval = "week", draft.interval * 2
    draft.freq = _UNIT_FREQ[unit]
    return True


def _span(span: Span, draft: Draft) -> bool:
    """Turn a length of time into a frequency and an interval."""
    kinds = [kind for kind in (span.months, span.days, span.elapsed) if kind]
    if not kinds:
        raise Misread("an interval of zero is not allowed", "every 15 minutes")
    if len(kinds) > 1:
        raise Misread("an interval is either of the calendar (days, weeks, months) or of hours and minutes")
    if span.elapsed:
        draft.freq, draft.interval = _elapsed(span.elapsed)
    elif span.days:
        draft.freq, draft.interval = (DAILY, span.days) if span.days % 7 else (WEEKLY, span.days // 7)
    else:
        draft.freq, draft.interval = (MONTHLY, span.months) if span.months % 12 else (YEARLY, span.months // 12)
    return True


def _elapsed(length: timedelta) -> tuple[str, int]:
    if length % _SECOND:
        raise Misread("an interval is of whole seconds", f"every {length // _SECOND + 1} seconds")
    return largest_unit(SECONDLY, length // _SECOND)
