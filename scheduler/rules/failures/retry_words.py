"""Retries in words: `5 times, 30 s apart` becomes the numbers of a policy, by the names in `RETRY_BOUNDS`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Final

from duetime.scheduler.rules.time.durations import LENGTH_UNITS, parse_exact
from duetime.scheduler.rules.time.tokens import NUMBERS, Misread, Unknown

_NUMBER: Final = r"(?<![\w.])(\d{1,9})"
_UNIT: Final = "|".join(sorted(LENGTH_UNITS, key=len, reverse=True))
_LENGTH: Final = rf"(\d{{1,9}}(?:\.\d{{1,3}})?\s*(?:{_UNIT})\b(?:(?:,|\s|and)*\d{{1,9}}\s*(?:{_UNIT})\b)*)"
_NONE: Final = re.compile(r"(?:none|never|off|no (?:retry|retries)|(?:do not|don't|never) (?:re)?try(?: again)?)")
_FILLERS: Final = re.compile(
    r"\b(?:please|retry|retries|retrying|try|tried|it|again|up|to|at|most|max|maximum|maximal|a|of|in|total|with|and|then|"
    r"each|time|times|more|further|pauses?|delays?|waits?|waiting|backoff|attempts?|tries|about|around|roughly|"
    r"approximately|on|if|when|errors?|failures?|fails)\b|[\s,.;:=()-]+"
)
_WORD: Final = re.compile(r"[a-z]+")
_MOST: Final = r"(?:up to|at most|max(?:imum|imal)?(?: of)?|capped? at|no more than|longest)"

_AGAIN: Final = re.compile(
    rf"{_NUMBER}\s*(?:x\b|times\b|(?:more |further )?retr(?:y|ies)\b|more (?:times|attempts|tries)\b)"
)
_RETRIES: Final = re.compile(rf"\bretries?\s*[:=]?\s*{_NUMBER}")
_TRIES: Final = re.compile(
    rf"{_NUMBER}\s*(?:attempts?\b|tries\b|(?:x|times)(?: in)? total\b)"
    rf"|\b(?:try|tried)(?: it)? (?:up to |at most )?{_NUMBER} times\b"
)
_LONGEST: Final = re.compile(rf"{_MOST} {_LENGTH}(?: apart| between(?: them)?)?")
_DOUBLING: Final = re.compile(
    r"(?:(?:doubling|doubled|exponential(?:ly)?)(?: each time)?(?: back-?off)?,?\s*)?"
    r"(?:doubling|exponential(?:ly)?|back-?off|starting|beginning|from)\s*(?:from |at |with |of |[:=])?\s*"
    rf"{_LENGTH}|{_LENGTH} (?:back-?off|doubling|doubled|exponential(?:ly)?)"
)
_ALWAYS: Final = re.compile(
    rf"{_LENGTH} (?:apart|(?:in )?between(?: (?:them|each|attempts|tries|retries))?|pauses?|delays?|waits?|intervals?)"
    r"|(?:every|after|waiting|wait|between|pauses?(?: of)?|delays?(?: of)?|intervals?(?: of)?)\s*[:=]?\s*"
    rf"{_LENGTH}"
    rf"|(?:[,;]|\bwith(?: a)?)\s*{_LENGTH}[\s.]*$"
)
_SPREAD: Final = re.compile(r"\b(?:doubling|exponential(?:ly)?)(?: back-?off)?\b")


def retry_members(text: str) -> dict[str, int]:
    """Return the numbers of a policy in words. Raises ValueError with the part that is not understood.

    `5 times` and `5 retries` come after the first attempt, `5 attempts` and a number alone count it.
    """
    members, left = _read(text)
    if left or not members:
        raise ValueError(f"{(left or text)[:40]!r} is not understood")
    return members


def understood(text: str) -> dict[str, int]:
    """Return the numbers of those parts of a text that are understood."""
    return _read(text)[0]


def seconds_in_words(text: str) -> int:
    """Return a length of time in whole seconds, rounded up. Raises ValueError where it is none."""
    try:
        return _seconds(text)
    except (Misread, Unknown):
        raise ValueError(f"{text[:40]!r} is not a length of time") from None


def _read(text: str) -> tuple[dict[str, int], str]:
    plain = " ".join(text.lower().split()).replace("half an hour", "30 minutes")
    plain = _WORD.sub(_digits, plain)
    if plain.isdecimal():
        return {"max_attempts": int(plain[:9])}, ""
    if _NONE.fullmatch(plain.strip(" .")):
        return {"max_attempts": 1}, ""
    members: dict[str, int] = {}
    for name, number, span in _parts(plain):
        members |= {name: number}
        plain = plain[: span[0]] + " " * (span[1] - span[0]) + plain[span[1] :]
    if "once" in plain or "twice" in plain:
        members.setdefault("max_attempts", 2 if "once" in plain else 3)
    if "always" in members:
        pause = members.pop("always")
        members |= {"backoff_seconds": pause, "max_backoff_seconds": members.get("max_backoff_seconds", 2 * pause)}
    rest = re.sub(r"\b(?:once|twice)\b", " ", _SPREAD.sub(" ", plain))
    return members, " ".join(_FILLERS.sub(" ", rest).split())


def _digits(word: re.Match[str]) -> str:
    number = NUMBERS.get(word[0])
    return str(number) if number is not None and word[0] != "a" else word[0]


def _parts(text: str) -> Iterator[tuple[str, int, tuple[int, int]]]:
    """Yield the parts of a text in their order of precedence: a name, its number, and where it is."""
    readers: tuple[tuple[re.Pattern[str], str, Callable[[str], int]], ...] = (
        (_TRIES, "max_attempts", int),
        (_AGAIN, "max_attempts", _with_first),
        (_RETRIES, "max_attempts", _with_first),
        (_LONGEST, "max_backoff_seconds", _seconds),
        (_DOUBLING, "backoff_seconds", _seconds),
        (_ALWAYS, "always", _seconds),
    )
    for pattern, name, read in readers:
        found = pattern.search(text)
        if found is None:
            continue
        try:
            number = read(next(filter(None, found.groups())))
        except (Misread, Unknown):
            continue
        text = text[: found.start()] + " " * (found.end() - found.start()) + text[found.end() :]
        yield name, number, found.span()


def _with_first(number: str) -> int:
    """Return how many attempts there are with so many retries."""
    return int(number) + 1


def _seconds(text: str) -> int:
    return math.ceil(parse_exact(text) / timedelta(seconds=1))
