"""Times of day in words: `17:30`, `9am`, `noon`, `in the evening`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import time

from duetime.scheduler.rules.time.tokens import NUMBERS, WEEKDAYS, Misread, Tokens

DEFAULT_TIME = time(9)
NO_TIME_PREFIX = "no time given: "
"""Beginning of the note on a date that names no time of day."""
NO_TIME = f"{NO_TIME_PREFIX}{DEFAULT_TIME:%H:%M} assumed"

_HALF_DAY_HOURS = 12
_NAMED = {"noon": time(12), "midday": time(12), "midnight": time(0), "eod": time(23, 59)}
_FIRST_THING = ("first thing in the morning", "first thing")
_PAST_MINUTES = {"half": 30, "quarter": 15}
_WRITTEN = re.compile(r"(?P<hour>[01]?[0-9]|2[0-3])(?P<dot>\.?)(?P<minute>[0-5][0-9])")
"""A time of day without its colon."""

_BEFORE_DATE = re.compile(r"(^|\buhr (?:[0-5][0-9] )?|\bum [0-9:.]+ )(?:am|den|le|el|il) (?=[0-9])")
_LOCAL_CLOCK = re.compile(
    r"\b(?:um|à|a las|alle) ([0-9]{1,2})(?:[:.]([0-5][0-9]))?(?: ?(?:uhr|h)(?: ?([0-5][0-9]))?)?(?![\w.:/-])"
    r"|\b([0-9]{1,2})(?:[:.]([0-5][0-9]))? ?uhr(?: ([0-5][0-9]))?(?![\w.:/-])"
    r"|\b([0-9]{1,2})h([0-5][0-9])\b|(?<=[0-9]{4} )([0-9]{1,2})h$"
)
"""A time of day with a numeric date as other languages write it: `8 uhr 30`, `um 8:30`, `8.30 uhr`, `à 8 h 30`."""

_YEAR = re.compile(r"19|20")
_MONTHS_PER_YEAR = 12
_COUNTED = frozenset({"times", "time", "occurrences"})
_NEAR_DAYS = frozenset({"today", "tomorrow", "tonight"})
_MINUTES_PER_DAY = 24 * 60
_NIGHT, _LAST_NIGHT_HOURS = "at night", 5
_HALVES = {"in the morning": "am", "in the afternoon": "pm", "in the evening": "pm", "at night": _NIGHT}
PART_HOURS = {"morning": (0, 12), "afternoon": (12, 18), "evening": (17, 24), "night": (18, 24)}
_LATE_AFTERNOON_HOURS = 21
"""`las 8 de la tarde` is 20:00; a filter of the afternoon ends before."""

DAY_PARTS = {"morning": time(9), "afternoon": time(15), "evening": time(18), "night": time(20)}


def with_plain_clock(clean: str) -> str:
    """Return a phrase with a numeric date and the time of day as `8:30`, however its language writes that."""
    return _LOCAL_CLOCK.sub(_plain_clock, _BEFORE_DATE.sub(r"\1", clean))


def _plain_clock(found: re.Match[str]) -> str:
    hour, minute = [*filter(None, found.groups()), "00"][:2]
    return f"{hour}:{minute}"


@dataclass(frozen=True, slots=True)
class Clock:
    """A time of day as it was read; `note` says what had to be assumed."""

    time: time
    note: str | None = None
    halved: bool = False
    """Whether the words said which half of the day."""
    part: str | None = None
    """The part of the day that stands for the time, where the words give no other."""
    midnight: bool = False
    """Whether the word was `midnight`, which begins a day, and of which people may mean the other end."""


class OutOfPart(Misread):
    """A time of day is not in the part of the day that the words name."""

    def __init__(self, part: str, time: time) -> None:
        super().__init__(f"{time:%H:%M} is not in the {part}")
        self.after_midnight = f"at {time:%H:%M}" if time.hour <= _LAST_NIGHT_HOURS else ""
        """The same time where people count it to the night before."""


def kept_or_usual(kept: time | None) -> Clock:
    """Return the time of day of a date that names none: the one to keep, else 09:00."""
    return Clock(DEFAULT_TIME, NO_TIME) if kept is None else Clock(kept, f"{NO_TIME_PREFIX}{kept:%H:%M} is kept")


def read_clock(row: Tokens, *, bare_hour: bool = False) -> Clock | None:
    """Read a time of day if one comes next; `bare_hour` lets a plain `9` after `at` stand for 09:00."""
    if any(row.phrase(words) for words in _FIRST_THING):
        return Clock(DEFAULT_TIME, f"first thing read as {DEFAULT_TIME:%H:%M}", halved=True, part="morning")
    at = row.accept("at", "@")
    return row.attempt(_named) or row.attempt(_past) or row.attempt(_part) or row.attempt(_digits, bare=at or bare_hour)


def exact_time(token: str) -> time:
    """Return the time of day of `09:30` or `09:30:15`; raise `Misread` if no clock shows it."""
    return _time(token, None)


def within(part: str, clock: Clock) -> Clock:
    """Return a time of day as it is meant in a part of the day; raise `Misread` if it is not in it.

    8 in the evening is 20:00.
    """
    start, end = PART_HOURS[part]
    if part == "afternoon" and not clock.halved:
        end = _LATE_AFTERNOON_HOURS
    meant = clock.time
    if not clock.halved and meant.hour < _HALF_DAY_HOURS <= start:
        meant = meant.replace(hour=meant.hour + _HALF_DAY_HOURS)
    if not start <= meant.hour < end or (meant != clock.time and clock.time.hour == 0):
        raise OutOfPart(part, clock.time)
    own_note = clock.note if clock.part else None
    note = own_note if meant == clock.time else f"read as {meant:%H:%M}, in the {part}"
    return Clock(meant, note, halved=True)


def _named(row: Tokens) -> Clock | None:
    _ = row.peek(1) in _NAMED and row.accept("12", "12:00")
    named = row.one_of(_NAMED)
    return None if named is None else Clock(named, midnight=named == time())


def _past(row: Tokens) -> Clock | None:
    """Read `half past nine`, `a quarter to ten in the evening`."""
    _ = row.accept("a")
    minutes = row.one_of(_PAST_MINUTES)
    sign = row.one_of({"past": 1, "to": -1})
    hour = str(NUMBERS.get(row.peek(), row.peek()))
    if minutes is None or sign is None or (row.peek(-2), sign) == ("half", -1) or not hour.isdigit():
        return None
    row.take()
    half = _half(row)
    full = _time(hour, half)
    found = (full.hour * 60 + sign * minutes) % _MINUTES_PER_DAY
    clock = time(found // 60, found % 60)
    return Clock(clock, None if half else f"read as {clock:%H:%M} on the 24-hour clock", halved=half is not None)


def _part(row: Tokens) -> Clock | None:
    _ = row.phrase("in the") or row.accept("the")
    name = row.peek()
    part = row.one_of(DAY_PARTS)
    if part is None:
        return None
    exact = row.attempt(_exact)
    return within(name, exact) if exact else Clock(part, f"{name} read as {part:%H:%M}", halved=True, part=name)


def _exact(row: Tokens) -> Clock | None:
    at = row.accept("at", "@")
    return row.attempt(_past) or _digits(row, bare=at)


def _digits(row: Tokens, *, bare: bool) -> Clock | None:
    token = _clock_token(row, sure=bare)
    if not token[:1].isdigit() or not token.replace(":", "").isdigit():
        return None
    half = _half(row)
    clock = row.accept("oclock") or ":" in token
    if half is None and not clock and not bare:
        return None
    found = _time(token, half)
    if half or ":" in token:
        return Clock(found, halved=half is not None)
    return Clock(found, f"{token} read as {found:%H:%M} on the 24-hour clock")


def _clock_token(row: Tokens, *, sure: bool) -> str:
    """Take a token, and return `0900` and `9.30` as a clock shows them, unless they can be something else.

    They are a time of day for `sure` after `at`. Else they need a day before them, and must be no year, date or count.
    """
    start, before, token = row.position, row.peek(-1), row.take()
    found = _WRITTEN.fullmatch(token)
    if found is None or row.peek() in _COUNTED:
        return token
    clock = f"{found['hour']}:{found['minute']}"
    if sure or row.peek() in {"am", "pm"}:
        return clock
    if not (before or row.peek() in _NEAR_DAYS) or not (found["dot"] or len(found["hour"]) > 1):
        return token
    if found["dot"]:
        other = "date" if before in WEEKDAYS and 1 <= int(found["minute"]) <= _MONTHS_PER_YEAR else ""
    else:
        other = "year" if _YEAR.match(token) else ""
    if other and (before in WEEKDAYS or before in _NEAR_DAYS):
        raise Misread(f"{token} can be a time of day or a {other}", row.replaced(start, f"at {clock}"))
    return token if other else clock


def _half(row: Tokens) -> str | None:
    if row.accept("am", "pm"):
        return row.peek(-1)
    return next((half for words, half in _HALVES.items() if row.phrase(words)), None)


def _time(token: str, half: str | None) -> time:
    hour, minute, second = ([int(part) for part in token.split(":")] + [0, 0])[:3]
    if half is not None:
        if not 1 <= hour <= _HALF_DAY_HOURS:
            raise Misread(f"{token} {half} is not a time of day", f"{hour % 24:02}:{minute % 60:02}")
        late = half == "pm" or (half == _NIGHT and _LAST_NIGHT_HOURS < hour < _HALF_DAY_HOURS)
        hour = hour % _HALF_DAY_HOURS + (_HALF_DAY_HOURS if late else 0)
    try:
        return time(hour, minute, second)
    except (ValueError, OverflowError):
        raise Misread(f"{token[:20]} is not a time of day (00:00 to 23:59)") from None
