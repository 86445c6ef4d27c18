"""Titles, numbers and times as a voice reads them out: in English words, without symbols."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final

from duetime.scheduler.rules.time import zones

MAX_SPOKEN_CHARS: Final = 80
_UNTITLED: Final = "Your task"
_ID: Final = re.compile(r"\b[a-z]_[0-9a-z]{12,}\b")
_EDGES: Final = ".,:-'’"
"""Marks that no word begins or ends with."""

_MIN_ID_CHARS: Final = 8


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_SMALL: Final = _words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_TENS: Final = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_ORDINALS: Final = _words(
    "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth "
    "fifteenth sixteenth seventeenth eighteenth nineteenth"
)
_PARTS_OF_DAY: Final = ((12, "in the morning"), (18, "in the afternoon"), (22, "in the evening"), (24, "at night"))
"""The hour at which each ends."""

_SPOKEN_SYMBOLS: Final = {"&": " and ", "%": " percent ", "+": " plus ", "@": " at ", "=": " equals "}
_NEAR: Final = {-1: "yesterday", 0: "today", 1: "tomorrow"}
_MAX_DAYS_BY_NAME: Final = 6


def spoken_title(title: str) -> str:
    """Return a title as it is read out: words, digits and simple marks, without anything that looks like an id."""
    return _clean(title) or _UNTITLED


def spoken_text(text: str) -> str:
    """Return what somebody wrote as it is read out, with a pause where it has a comma or a colon."""
    parts = (_clean(part) for part in re.split(r"[,:;](?=\s)", text))
    return _cut(", ".join(part for part in parts if part))


def _clean(text: str) -> str:
    named = _ID.sub(" ", text)
    spoken = "".join(_SPOKEN_SYMBOLS.get(char, char) for char in named)
    words = [word for word in re.sub(r"[^\w\s'’.,:-]|_", " ", spoken).split() if not _is_id(word)]
    return _cut(" ".join(word.strip(_EDGES) for word in words if word.strip(_EDGES)))


def _cut(text: str) -> str:
    return text[:MAX_SPOKEN_CHARS].rsplit(" ", 1)[0] if len(text) > MAX_SPOKEN_CHARS else text


def _is_id(word: str) -> bool:
    return len(word) >= _MIN_ID_CHARS and any(char.isdigit() for char in word) and any(char.isalpha() for char in word)


def spoken_time(instant: datetime, zone: str, now: datetime) -> str:
    """Say an instant as people do, in its zone: `tomorrow at half past nine in the morning`."""
    home = zones.load(zone)
    at, here = instant.astimezone(home), now.astimezone(home)
    return f"{_day(at, here)} {_clock(at)}"


def _day(at: datetime, now: datetime) -> str:
    days = (at.date() - now.date()) // timedelta(days=1)
    if days in _NEAR:
        return _NEAR[days]
    if 0 < days <= _MAX_DAYS_BY_NAME:
        return f"on {at:%A}"
    year = "" if at.year == now.year else f" {spoken_year(at.year)}"
    return f"on {at:%A}, {at:%B} the {ordinal(at.day)}{year}"


def _clock(at: datetime) -> str:
    hour, minute = at.hour, at.minute
    if minute == 0 and hour % 12 == 0:
        return "at midnight" if hour == 0 else "at noon"
    return f"at {_hour_and_minute(hour, minute)} {_part_of_day(hour)}"


def _hour_and_minute(hour: int, minute: int) -> str:
    hour_now, following = (number(hour % 12 or 12), number((hour + 1) % 12 or 12))
    quarters = {0: hour_now, 15: f"quarter past {hour_now}", 30: f"half past {hour_now}", 45: f"quarter to {following}"}
    if minute in quarters:
        return quarters[minute]
    return f"{hour_now} {'' if minute // 10 else 'oh '}{number(minute)}"


def _part_of_day(hour: int) -> str:
    return next(words for end, words in _PARTS_OF_DAY if hour < end)


def number(count: int) -> str:
    """Say a number in words, up to ninety nine."""
    if count < len(_SMALL):
        return _SMALL[count]
    tens, rest = divmod(count, 10)
    if tens >= len(_TENS):
        return str(count)
    return f"{_TENS[tens]} {_SMALL[rest]}" if rest else _TENS[tens]


def ordinal(day: int) -> str:
    """Say a day of the month: `twenty fourth`."""
    if day < len(_ORDINALS):
        return _ORDINALS[day]
    tens, rest = divmod(day, 10)
    return f"{_TENS[tens]} {_ORDINALS[rest]}" if rest else f"{_TENS[tens][:-1]}ieth"


def spoken_year(year: int) -> str:
    """Say a year of this century in two halves: `twenty twenty seven`."""
    century, rest = divmod(year, 100)
    if century - 20 or not rest // 10:
        return str(year)
    return f"{number(century)} {number(rest)}"
