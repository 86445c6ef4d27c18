"""Words of dates and times: what they mean as numbers, and a text as a row of tokens."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Concatenate, ParamSpec, TypeVar

MAX_PHRASE_CHARS = 200
"""Longer texts are refused unread."""

WEEKDAY_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTH_NAMES = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip

_NUMBER_NAMES = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
)  # fmt: skip
NUMBERS = {name: value for value, name in enumerate(_NUMBER_NAMES)} | {"a": 1, "an": 1, "thirty": 30, "ninety": 90}
ORDINAL_INDEX = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "last": -1}
WEEKDAYS = {form: index for index, name in enumerate(WEEKDAY_NAMES) for form in (name.lower(), name[:3].lower())}
WEEKDAYS |= {"tues": 1, "weds": 2, "thur": 3, "thurs": 3}
MONTHS = {form: index for index, name in enumerate(MONTH_NAMES, 1) for form in (name.lower(), name[:3].lower())}
MONTHS |= {"sept": 9}

_TOKEN = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?![0-9])"  # a date
    r"|[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?(?![0-9:])"  # a clock
    r"|[0-9]{1,4}(?:st|nd|rd|th)(?![a-z])"  # an ordinal
    r"|:[0-9]{2}(?![0-9:])"  # a minute of the hour
    r"|[0-9]+(?:\.[0-9]+)?"
    r"|[a-z]+"
    r"|[-:,/+&@*]"
)
_ABBREVIATED = re.compile(rf"\b({'|'.join(sorted({*WEEKDAYS, *MONTHS}, key=len, reverse=True))})\.(?=[ ,]|$)")
_TOMORROW = re.compile(r"\b(?:tmrw|tmr|tmw|tomm?orr?ow)\b")
_ABOUT = re.compile(r"\b(?:around|about|approx\.?|approximately|roughly) (?=(?:at )?[0-9]|an? |half |noon|midnight)")
_OWN_TIME = re.compile(r" \(?(?:my |your )?(?:own |local )?time\)?$")
_POSSESSIVE = re.compile(r"(?<=[a-z])['\u2019]s\b")
_YEAR = re.compile(r"[0-9]{4}")
_SPACE = re.compile(r"\s+")
_Value = TypeVar("_Value")
_Given = ParamSpec("_Given")


class Misread(ValueError):
    """A text says something that cannot be right.

    `examples` are corrected texts, one for each thing that could be meant. They belong to the IANA zone `zone` if that
    is given, else to the zone that the text was read in.
    """

    def __init__(self, problem: str, *examples: str, zone: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.examples = examples
        self.zone = zone

    @property
    def example(self) -> str:
        """Return the nearest corrected text, empty when there is none."""
        return self.examples[0] if self.examples else ""


class Unknown(Misread):
    """A text is in none of the known forms, so another reader may still know it."""


class Tokens:
    """The tokens of a text, read from left to right."""

    def __init__(self, tokens: tuple[str, ...]) -> None:
        self._tokens = tokens
        self.position = 0

    @property
    def done(self) -> bool:
        return self.position >= len(self._tokens)

    @property
    def last(self) -> str:
        """Return the last token of the whole text, empty when there is none."""
        return self._tokens[-1] if self._tokens else ""

    @property
    def rest(self) -> str:
        """Return the tokens that are still to be read."""
        return " ".join(self._tokens[self.position :]).replace(" ,", ",")

    def peek(self, ahead: int = 0) -> str:
        """Return a token without reading it, empty before the first and past the last one."""
        index = self.position + ahead
        return self._tokens[index] if 0 <= index < len(self._tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.position += 1
        return token

    def accept(self, *tokens: str) -> bool:
        """Read the next token if it is one of these."""
        if self.peek() not in tokens or self.done:
            return False
        self.position += 1
        return True

    def phrase(self, text: str) -> bool:
        """Read these words if they come next, all or none."""
        words = tuple(text.split())
        if self._tokens[self.position : self.position + len(words)] != words:
            return False
        self.position += len(words)
        return True

    def one_of(self, table: dict[str, _Value]) -> _Value | None:
        """Read the next token if `table` has it, and return what it stands for."""
        found = table.get(self.peek())
        if found is not None:
            self.position += 1
        return found

    def since(self, start: int) -> str:
        """Return the tokens read since `start`."""
        return " ".join(self._tokens[start : self.position])

    def until(self, end: int) -> str:
        """Return the text of the tokens up to a position."""
        return " ".join(self._tokens[:end]).replace(" ,", ",")

    def replaced(self, start: int, text: str) -> str:
        """Return the whole text with `text` in place of the tokens read since `start`."""
        parts = (*self._tokens[:start], text, *self._tokens[self.position :])
        return " ".join(parts).replace(" t ", "T")

    def attempt(
        self, read: Callable[Concatenate[Tokens, _Given], _Value | None], *args: _Given.args, **named: _Given.kwargs
    ) -> _Value | None:
        """Return what `read` reads with these arguments; what it took is put back when that is None or False."""
        start = self.position
        found = read(self, *args, **named)
        if found is None or found is False:
            self.position = start
        return found


def tokens(text: str) -> Tokens:
    """Split a text into tokens; raise `Unknown` at a character that no date or time has."""
    return Tokens(_split(text))


@lru_cache(maxsize=128)
def _split(text: str) -> tuple[str, ...]:
    """Split a text; cached, because several readers try the same one."""
    rest = _POSSESSIVE.sub("s", normal(text)).replace("o'clock", "oclock").replace("a.m.", "am").replace("p.m.", "pm")
    rest = _TOMORROW.sub("tomorrow", _ABBREVIATED.sub(r"\1", rest)).replace("tonite", "tonight")
    found: list[str] = []
    at = 0
    while at < len(rest):
        if rest[at] == " ":
            at += 1
            continue
        match = _TOKEN.match(rest, at)
        if match is None:
            raise Unknown(f"{rest[at]!r} has no place in a time")
        found.append(match[0])
        at = match.end()
    return tuple(found)


def normal(text: str) -> str:
    """Return a text in lower case with single spaces."""
    return _SPACE.sub(" ", text.strip()).lower()


def without_spare_words(clean: str) -> str:
    """Return a phrase without words that change nothing: `around 3pm`, `9am my time`."""
    own = _OWN_TIME.search(clean)
    return _ABOUT.sub("", clean[: own.start()] if own and own[0] != " time" else clean)


def ordinal(token: str) -> int | None:
    """Return the number of `3rd`, None for what is no ordinal in digits."""
    return int(token[:-2]) if token[:1].isdigit() and token[-2:] in {"st", "nd", "rd", "th"} else None


def ordinal_text(number: int) -> str:
    """Write `1st`, `2nd`, `3rd`, `4th`."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number // 10 % 10 == 1 else ending}"


def is_year(token: str) -> bool:
    """Whether a token is a year in four digits."""
    return _YEAR.fullmatch(token) is not None
