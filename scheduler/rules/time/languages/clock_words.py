"""Times of day and lengths of time in English: `halb neun` is `8:30`, `anderthalb Stunden` are `90 minutes`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from duetime.scheduler.rules.time.languages.lexicon import Word

PhraseParts = Mapping[str, Sequence[Word]]
"""The named parts of a phrase, each with its words."""

MINUTES: Final = re.compile("[0-5][0-9]")
_WITHOUT_AT: Final = ("first thing", "before ", "after ")
MAX_CLOCK_HOURS: Final = 23
_NAMED_HOURS: Final = {"noon": 12, "midnight": 0}
_MINUTES_PER_DAY: Final = 24 * 60
_EVENING_HOURS, _LAST_NIGHT_HOURS, _LATE_NIGHT_HOURS, _HALF_DAY_HOURS = 18, 5, 8, 12


def clock(said: PhraseParts, *, named: bool, part: str = "clock") -> str:
    """Return a time of day in English, empty for what may be a length of time: `9h` without a day or an `at`."""
    words = said.get(part) or [Word("", "")]
    kinds = [word.kind for word in words]
    if "beforehour" in kinds or "afterhour" in kinds:
        return _moved(words)
    hour, *rest = words
    if hour.kind == "dotted":
        return hour.english.replace(".", ":") if rest or "at" in said else ""
    if hour.kind != "number":
        return hour.english
    at = "at" in said
    unit, minutes = (word.english for word in (*rest, Word("", ""), Word("", ""))[:2])
    if not rest:
        return hour.english if at else ""
    if (minutes and not MINUTES.fullmatch(minutes)) or (unit and not at and not named):
        return ""
    return f"{hour.english}:{minutes or '00'}"


def _moved(words: Sequence[Word]) -> str:
    """Return the time so many minutes before or after an hour, which stand before it or behind it."""
    shift = next(int(word.english) for word in words if word.kind in {"beforehour", "afterhour"})
    hour = next(word.english for word in words if word.kind in {"number", "time"})
    if hour not in _NAMED_HOURS and not hour.isdigit():
        return ""
    of_day = _NAMED_HOURS[hour] if hour in _NAMED_HOURS else int(hour)
    if of_day == 1 and shift < 0:  # `half een` is as long after twelve as `kwart over twaalf`
        of_day = _HALF_DAY_HOURS + 1
    found = (of_day * 60 + shift) % _MINUTES_PER_DAY
    return f"{found // 60}:{found % 60:02}"


def window(said: PhraseParts) -> str:
    """Return `between 9 and 17:30`, empty where one of both ends is no time of day."""
    sure = {**said, "at": (Word("at", ""),)}
    ends = [clock(sure, named=True, part=part).removesuffix(":00") for part in ("first", "last")]
    return f"between {ends[0]} and {ends[1]}" if all(ends) else ""


def with_at(clock: str) -> str:
    """Return a time of day with the English word before it, where it has one."""
    return clock if clock.startswith(_WITHOUT_AT) else f"at {clock}"


def in_part(clock: str, parts: Sequence[str]) -> str:
    """Return a time of day with the part of the day that it is in."""
    return " ".join((clock, *("at night" if part == "night" else f"in the {part}" for part in parts)))


def at_night(clock: str) -> Iterator[str]:
    """Yield a time in the night that comes, of an hour that a night has: 11 is 23:00, and 2 is after midnight."""
    hour, _, minute = clock.partition(":")
    if clock == "midnight" or (hour == str(_HALF_DAY_HOURS) and minute in {"", "00"}):
        yield "tonight at midnight"
    elif hour == str(_HALF_DAY_HOURS):
        yield f"at 0:{minute}"
    elif hour.isdigit() and int(hour) >= _EVENING_HOURS:
        yield f"today at {clock}"
    elif hour.isdigit() and int(hour) <= _LAST_NIGHT_HOURS:
        yield f"at {clock}"
    elif hour.isdigit() and _LATE_NIGHT_HOURS <= int(hour) < _HALF_DAY_HOURS:
        yield f"today at {int(hour) + _HALF_DAY_HOURS}:{minute or '00'}"


def counted(words: Sequence[Word]) -> str:
    """Return a length of time of one unit in English."""
    length = " ".join(word.english for word in words if word.kind != "afterhour")
    return length.rstrip("s") if length.startswith("1 ") else length


def span(said: PhraseParts) -> str:
    """Return a length of time in English, of one unit or two; empty where these do not go together."""
    parts = [_part(said[name]) for name in ("length", "more") if name in said]
    return " and ".join(parts) if all(parts) else ""


def _part(words: Sequence[Word]) -> str:
    """Return `1 hour and 30 minutes` for an hour and a half, empty for a half of what is no hour."""
    end = words[-1]
    if end.kind == "number":  # `1h30`
        return f"{counted(words[:2])} and {end.english} minutes" if MINUTES.fullmatch(end.english) else ""
    if end.kind != "afterhour":
        return counted(words)
    of_hours = words[1].english == "hours" and int(end.english) > 0
    return f"{counted(words)} and {end.english} minutes" if of_hours else ""
