"""Texts that could mean anything: `soon`, a bare number. They are refused, with what they may have meant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime

from duetime.scheduler.rules.time.tokens import MONTHS, NUMBERS, Misread

_BARE = re.compile(r"(?:in )?[-+]?([0-9]+(?:[.,][0-9]+)?)")
_MAX_YEARS_SHOWN = 5
_CLOCK_HOURS = 12
_VAGUE = frozenset({
    "soon", "later", "sometime", "someday", "eventually", "whenever", "never", "shortly", "anytime",
    "later today", "in a while", "in a bit", "in a moment", "some time", "any time", "next time",
})  # fmt: skip
_NEXT_HOUR = ("next hour", "in the next hour", "within the hour", "within the next hour")
_NEARLY = {
    **dict.fromkeys((*_VAGUE, *_NEXT_HOUR), "in 1 hour"), "asap": "now", "as soon as possible": "now",
    "later tonight": "tonight at 21:00",
}  # fmt: skip
"""Texts that say no time, with the one that comes next to them."""

_CLOCKS = {
    "breakfast": ("07:30", "08:00", "09:00"), "lunch": ("11:30", "12:30", "13:00"),
    "lunchtime": ("11:30", "12:30", "13:00"), "dinner": ("18:00", "19:00", "20:00"),
    "supper": ("18:00", "19:00", "20:00"), "work": ("08:00", "", "18:00"), "school": ("07:30", "", "16:00"),
    "bed": ("22:00", "", ""), "bedtime": ("22:00", "22:30", ""),
}  # fmt: skip
"""Times of day that people mean before, at and after what has no fixed one."""

_CLOSE = re.compile(
    r"\b(?:(?:by|at|before) )?(?:the )?(?:end of (?:the )?business|close of business|cob|eob)(?: on)?\b"
)
_OPEN = re.compile(
    r"\b(?:(?:by|at|from) )?(?:the )?(?:start of (?:the )?business|opening of business)(?: on)?\b(?! day)"
)
_MIDDLE_CLOCKS = {"morning": "at 10:30", "afternoon": "at 15:00"}
_MIDDLE = re.compile(r"\bmid[ -](?:of )?([a-z]+)\b")
_MIDDLE_OF_WEEK = re.compile(r"\b(?:in (?:the )?)?(?:the )?mid(?:dle(?: of)?)?[ -]?(?:the )?(next )?week\b")
_ALWAYS = "24/7"
_SAME_DAY = re.compile(r"(?:the )?same day (next (?:week|month))")
_NAMES = "|".join(sorted(_CLOCKS, key=len, reverse=True))
_OCCASION = re.compile(rf"\b(?:(before|at|over|during|around|after) )?(?:the )?({_NAMES})\b(?! days?)")


_EARLY_CLOCKS = {"early": "8:00", "late": "20:00"}
_EARLY = re.compile(r"(early|late) (?:on )?(.+)")
_MINUTES = {name: number for name, number in NUMBERS.items() if number in {5, 10, 20}}
_MINUTES |= {"twenty five": 25, "twenty-five": 25, "5": 5, "10": 10, "20": 20, "25": 25}
_HOURS = {name: number for name, number in NUMBERS.items() if len(name) > len("an") and 1 <= number <= _CLOCK_HOURS}
_AROUND_HOUR = re.compile(
    rf"\b(?:at )?(?:({'|'.join(sorted(_MINUTES, key=len, reverse=True))}) (?:minutes )?(to|past)|half) "
    rf"({'|'.join(_HOURS)}|1[0-2]|[1-9])\b(?! ?[ap]m| (?:second|min|hour|day|week|month|year))"
)
"""`five to nine`, and `half nine`, which is before nine or after it by where people come from."""

_WINDOW_WORDS = ("between ", "from ", " and ", " to ", " until ")


class Vague(Misread):
    """A text says no time at all."""


def refuse_vague(clean: str, now: datetime) -> None:
    """Raise `Vague` for a text that says no time."""
    if not clean:
        raise Vague("is empty")
    bare = _BARE.fullmatch(clean)
    if bare is not None:
        raise Vague(f"a bare {bare[1][:20]} does not say what it counts", *_meant(bare[1], now), *_dotted(clean))
    if clean in _NEARLY:
        raise Vague(f"{clean!r} is not a time", _NEARLY[clean])
    _refuse_middle(clean)
    if clean == _ALWAYS:
        raise Vague(f"{clean} is a day of July, or all times", "24 july")
    if early := _EARLY.fullmatch(clean):
        raise Vague(f"{early[1]} is at no fixed time of day", f"{early[2]} at {_EARLY_CLOCKS[early[1]]}")
    if around := _AROUND_HOUR.search(clean):
        raise Vague(*_around(around))
    if same := _SAME_DAY.fullmatch(clean):
        raise Vague(f"{clean!r} does not say at which time of day", f"same time {same[1]}")
    refuse_occasions(clean)


def _refuse_middle(clean: str) -> None:
    middle = _MIDDLE.search(clean)
    if middle and middle[1] in MONTHS:
        raise Vague(f"{middle[0]} names no day", _MIDDLE.sub(r"\1 15", clean))
    if middle and middle[1] in _MIDDLE_CLOCKS:
        raise Vague(f"{middle[0]} is at no fixed time of day", _MIDDLE.sub(_MIDDLE_CLOCKS[middle[1]], clean))
    if week := _MIDDLE_OF_WEEK.search(clean):
        named = f"wednesday{' next week' if week[1] else ''}"
        raise Vague(f"{week[0]} names no day", clean.replace(week[0], named))


def _around(found: re.Match[str]) -> Iterator[str]:
    """Yield what is wrong with `five to nine`, and the times that it can stand for."""
    hour = _HOURS.get(found[3]) or int(found[3])
    shifts = (30, -30) if found[2] is None else (_MINUTES[found[1]] * (1 if found[2] == "past" else -1),)
    yield f"{found[0]} is not the time of a clock of 24 hours"
    for shift in shifts:
        minutes = (hour * 60 + shift) % (24 * 60)
        yield _AROUND_HOUR.sub(f"at {minutes // 60}:{minutes % 60:02}", found.string)


def refuse_occasions(clean: str) -> None:
    """Raise `Vague` for `after lunch`: everybody has it at another time of day. The example gives one."""
    found = _OCCASION.search(clean)
    if found and _clock_of(found) != found[0]:
        raise Vague(f"{found[0]} is at no fixed time of day", _OCCASION.sub(_clock_of, clean))
    if opens := _OPEN.search(clean):
        raise Vague(f"{opens[0]} is at no fixed time of day", _OPEN.sub("at 9:00", clean))
    if closes := _CLOSE.search(clean):
        raise Vague(f"{closes[0]} is at no fixed time of day", _CLOSE.sub("at 17:00", clean))


def _clock_of(occasion: re.Match[str]) -> str:
    index = {"before": 0, "after": 2}.get(occasion[1] or "at", 1)
    clock = _CLOCKS[occasion[2]][index]
    ends_a_window = occasion.string[: occasion.start()].endswith(_WINDOW_WORDS)
    return (clock if ends_a_window else f"at {clock}") if clock else occasion[0]


def _meant(number: str, now: datetime) -> Iterator[str]:
    """Yield the times that a bare number can stand for, by how many digits it has."""
    if len(number) <= 3:  # noqa: PLR2004 - a count
        yield f"in {number} minutes"
    if re.fullmatch(r"[0-9]{4}", number):
        if now.year < int(number) <= now.year + _MAX_YEARS_SHOWN:
            yield f"{number}-01-01T09:00"
        if int(number[:2]) < 24 and int(number[2:]) < 60:  # noqa: PLR2004 - a time of day
            yield f"{number[:2]}:{number[2:]}"
    if re.fullmatch(r"[0-9]{8}", number):
        yield f"{number[:4]}-{number[4:6]}-{number[6:]}T09:00"
    if re.fullmatch(r"[0-9]{10}(?:[0-9]{3})?", number):
        yield from _epoch(int(number[:10]), now)


def _dotted(number: str) -> Iterator[str]:
    """Yield the time of day that `9.30` can stand for."""
    hour, _, minute = number.partition(".")
    if re.fullmatch(r"[0-9]{1,2}\.[0-9]{2}", number) and int(hour) < 24 and int(minute) < 60:  # noqa: PLR2004 - of a day
        yield f"{int(hour):02}:{minute}"


def _epoch(seconds: int, now: datetime) -> Iterator[str]:
    with suppress(ValueError, OverflowError, OSError):
        instant = datetime.fromtimestamp(seconds, UTC)
        if instant > now:
            yield f"{instant:%Y-%m-%dT%H:%M:%SZ}"
