"""Distances from another time: `10 minutes before` 3 pm, `a week from` friday, `the day before` christmas."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import date, timedelta

from duetime.scheduler.rules.time.days.calendar_day import Day, add_months
from duetime.scheduler.rules.time.durations import UNITS, Span, read_span
from duetime.scheduler.rules.time.time_of_day import DAY_PARTS, Clock
from duetime.scheduler.rules.time.tokens import WEEKDAYS, Misread, Tokens
from duetime.scheduler.rules.time.viewpoint import Frame

END_WORDS = frozenset({"by", "until", "till", "til", "before"})
"""Words before the time at which something has to have ended."""

LATE_HOURS = frozenset(str(hour) for hour in range(13, 24))
"""Hours that are of one half of the day."""

_BEGIN = re.compile(r"(?:(?:after|not? (?:earlier than|before)|some ?time|any ?time)(?: on)? )+(?=\w)")
_NEAR_DAYS = frozenset({"today", "tomorrow"})
_AFTERWARDS = re.compile(r" after(?:wards?)?$")
_SPAN_SIGN = {"before": -1, "after": 1, "from": 1, "past": 1}
_HALF_DAY_HOURS = 12
_MAX_HOUR_DIGITS = 2


@dataclass(frozen=True, slots=True)
class Offset:
    """A length of time before (`sign` -1) or after another time; `clock` is the time of day that the words carry."""

    span: Span
    sign: int
    clock: Clock | None = None

    def from_day(self, day: Day) -> Day:
        """Return the days so far from those that `day` can mean."""
        days = tuple(self._moved(found) for found in day.candidates)
        return replace(day, candidates=days, note=self._note(day), every="")

    def _moved(self, day: date) -> date:
        return add_months(day, self.sign * self.span.months) + self.sign * timedelta(days=self.span.days)

    def _note(self, day: Day) -> str | None:
        """Keep a note of the other day only where it is the day itself, else say the day that was found."""
        return day.note if self.span.elapsed and not (self.span.days or self.span.months) else "read as {day}"


def read_offset(row: Tokens) -> Offset | None:
    """Read a length of time and its direction if they come next."""
    clock = None
    span = row.attempt(the_day) or row.attempt(read_span)
    if span is None:
        clock = row.attempt(_part_of_day)
        span = Span(days=1) if clock else None
    sign = (row.one_of(_SPAN_SIGN) or _on_weekday(row, span)) if span else None
    return Offset(span, sign, clock) if span and sign else None


def _on_weekday(row: Tokens, span: Span) -> int | None:
    """Read the `on` of `a week on friday`, which is a week after that, as `a week tomorrow` is of tomorrow."""
    weeks = span.days and not span.days % 7 and not (span.months or span.elapsed)
    if weeks and row.peek() in _NEAR_DAYS:
        return 1
    return 1 if weeks and row.peek(1) in WEEKDAYS and row.accept("on") else None


def refuse_bare_hour(row: Tokens) -> None:
    """Raise `Misread` for `10 minutes before 3` and `by 3 tomorrow`, which can be of either half of the day."""
    hour = row.peek()
    if (
        not hour.isdigit()
        or row.peek(1) in UNITS
        or not (row.rest == hour or row.peek(-1) in END_WORDS)
        or not 1 <= int(hour[:3]) <= _HALF_DAY_HOURS
    ):
        return
    start = row.position
    row.take()
    later = int(hour) % _HALF_DAY_HOURS + _HALF_DAY_HOURS
    both = (row.replaced(start, f"{found:02}:00") for found in (later, int(hour) % _HALF_DAY_HOURS))
    raise Misread("it is not clear which half of the day is meant", *both)


def refuse_limit(clean: str, frame: Frame) -> None:
    """Raise `Misread` for `before friday` and `until friday` where a time is asked for, and not the end of one."""
    word, _, rest = clean.partition(" ")
    if begin := _BEGIN.match(clean):
        raise Misread(f"{clean[:40]!r} names no exact time", *_as_time(clean[begin.end() :]))
    if not rest or word not in END_WORDS or frame.end:
        return
    meant = _as_time(rest)
    days = (f"the day before {rest}",) if word == "before" and meant == (rest,) else ()
    raise Misread(f"{clean[:40]!r} names an end, and no time", *days, *meant)


def _as_time(text: str) -> tuple[str, ...]:
    """Return an hour alone as the times of day that it can mean, and any other text as it is."""
    is_hour = text.isdigit() and len(text) <= _MAX_HOUR_DIGITS
    return (f"at {text}", f"at {int(text) + _HALF_DAY_HOURS}") if is_hour else (text,)


def refuse_afterwards(row: Tokens, clean: str) -> None:
    """Raise `Misread` for `2 hours afterwards`, whose length of time was just read, where nothing stands before it."""
    if row.accept("after", "afterwards", "afterward") and row.done:
        length = _AFTERWARDS.sub("", clean[:40]).removeprefix("in ")
        raise Misread(f"{clean[:40]!r} does not say after what", f"in {length}")


def the_day(row: Tokens) -> Span | None:
    """Read `the day` and `day`, which are one day."""
    _ = row.accept("the")
    return Span(days=1) if row.accept("day") else None


def _part_of_day(row: Tokens) -> Clock | None:
    """Read `the evening`, which is that of the day before or after."""
    _ = row.accept("the")
    name = row.peek()
    found = row.one_of(DAY_PARTS)
    return Clock(found, f"{name} read as {found:%H:%M}", halved=True, part=name) if found else None
