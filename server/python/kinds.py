"""The kinds of values that a program passes: Python's own types as they are, all else as a tool reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any

from duetime.scheduler.errors import InvalidArguments
from duetime.scheduler.handlers import Handler, WatchCheck
from duetime.scheduler.handlers.payload import as_json
from duetime.scheduler.rules.limits.price import read_amount
from duetime.scheduler.rules.retry import is_sound, retry_policy
from duetime.scheduler.rules.sanitize import check_json
from duetime.scheduler.rules.time.durations import parse_exact
from duetime.scheduler.task import RetryPolicy, State
from duetime.tools.arguments.choices import Choice, Choices
from duetime.tools.arguments.retry import RetryTerms
from duetime.tools.arguments.steps import Steps
from duetime.tools.arguments.types import (
    MAX_NUMBER_VALUE,
    ArgumentType,
    Correctable,
    Object,
    Text,
    Texts,
    named,
    out_of_range,
)

MAX_SPAN = timedelta(days=36_525)


@dataclass(frozen=True, slots=True)
class PythonKind:
    """One kind of value. `read` raises ValueError with the problem, as the kinds of the tools do."""

    accepted: str

    def schema(self) -> dict[str, Any]:
        """Return nothing: no model sees these arguments."""
        return {}

    def read(self, given: Any) -> Any:
        return given


@dataclass(frozen=True, slots=True)
class Native(PythonKind):
    """Values of `types` are taken as they are; `other` reads the rest, or refuses it."""

    types: tuple[type, ...]
    other: ArgumentType | None = None

    def read(self, given: Any) -> Any:
        if isinstance(given, self.types):
            return given
        if self.other is None:
            raise ValueError(f"{named(given)} is not {self.accepted}")
        return self.other.read(given)


@dataclass(frozen=True, slots=True)
class RecurrenceWords(PythonKind):
    """A recurrence in words; a timedelta is refused with the words for it."""

    words: ArgumentType

    def read(self, given: Any) -> Any:
        if isinstance(given, timedelta):
            raise ValueError("a timedelta is not a recurrence: write it in words")  # noqa: TRY004 - one family for all kinds
        return self.words.read(given)


@dataclass(frozen=True, slots=True)
class Items(PythonKind):
    """A sequence, each item of which `each` reads; one text alone stands for a list of it."""

    each: Texts | Choices

    def read(self, given: Any) -> Any:
        many = isinstance(given, Sequence) and not isinstance(given, str | bytes | bytearray | memoryview | range)
        return self.each.read(list(given) if many else given)

    def corrected(self, given: Any) -> Any:
        """Return what the kind of an item can make of another value."""
        return self.each.corrected(given) if isinstance(self.each, Correctable) else None


@dataclass(frozen=True, slots=True)
class PlainTexts(Items):
    """Texts that the service checks one by one: a list of nothing else passes as it is."""

    def read(self, given: Any) -> Any:
        plain = type(given) in {list, tuple} and all(type(item) is str for item in given)
        return given if plain else Items.read(self, given)


@dataclass(frozen=True, slots=True)
class States(Items):
    """States of runs, by member or by name."""

    def read(self, given: Any) -> Any:
        return tuple(State(word) for word in Items.read(self, given))


@dataclass(frozen=True, slots=True)
class OneOf(PythonKind):
    """One word of a closed set, by member or by name."""

    words: type[StrEnum]

    def read(self, given: Any) -> Any:
        return self.words(Choice(tuple(self.words)).read(given))


@dataclass(frozen=True, slots=True)
class LengthOfTime(PythonKind):
    """A length of time that may be nothing: a timedelta, seconds, or words."""

    def read(self, given: Any) -> Any:
        span = given if isinstance(given, timedelta) else _span(given)
        if not timedelta(0) <= span <= MAX_SPAN:
            raise ValueError("it is out of range")
        return span


def _span(given: Any) -> timedelta:
    if isinstance(given, int | float) and not isinstance(given, bool):
        return timedelta(seconds=given) if 0 <= given <= MAX_SPAN.total_seconds() else -MAX_SPAN
    return parse_exact(Text(200).read(given))


@dataclass(frozen=True, slots=True)
class Amount(PythonKind):
    """A number of units, zero or more."""

    def read(self, given: Any) -> Any:
        if not isinstance(given, int | float) or isinstance(given, bool):
            raise ValueError(f"{named(given)} is not {self.accepted}")  # noqa: TRY004 - one family for all kinds
        if not 0 <= given <= MAX_NUMBER_VALUE:
            raise ValueError(out_of_range(given))
        return given


@dataclass(frozen=True, slots=True)
class Money(PythonKind):
    """An amount in the installation's currency, exact to a millionth."""

    def read(self, given: Any) -> Any:
        if not isinstance(given, Decimal | int | float | str) or isinstance(given, bool):
            raise ValueError(f"{named(given)} is not {self.accepted}")  # noqa: TRY004 - one family for all kinds
        return read_amount(format(given, "f") if isinstance(given, Decimal) else str(given).strip())


@dataclass(frozen=True, slots=True)
class Members(PythonKind):
    """A mapping by text, which `members` reads as a JSON object."""

    members: ArgumentType = field(default_factory=Object)

    def read(self, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return self.members.read(given)
        if wrong := [key for key in given if not isinstance(key, str)]:
            raise ValueError(f"it has a key that is not text: {named(wrong[0])}")
        return self.members.read(dict(given))

    def corrected(self, given: Any) -> Any:
        """Return what the members can make of another value."""
        return self.members.corrected(given) if isinstance(self.members, Correctable) else None


@dataclass(frozen=True, slots=True)
class PayloadFields(Members):
    """A mapping, or a pydantic model, which becomes the JSON object of its fields."""

    def read(self, given: Any) -> Any:
        return Members.read(self, as_json(given))


@dataclass(frozen=True, slots=True)
class ChainSteps(PythonKind):
    """Steps of a chain; the payload of each is what that of a task may be."""

    def read(self, given: Any) -> Any:
        return [
            _with_json(step, number) if isinstance(step, Mapping) else step
            for number, step in enumerate(Steps().read(given))
        ]


def _with_json(step: Mapping[str, Any], number: int) -> Mapping[str, Any]:
    if step.get("payload") is None:
        return step
    try:
        return {**step, "payload": as_json(step["payload"])}
    except InvalidArguments as wrong:
        name = step.get("name")
        place = f"steps.{name}" if name and isinstance(name, str) else f"steps[{number}]"
        raise InvalidArguments([each.at(place) for each in wrong.problems]) from None


@dataclass(frozen=True, slots=True)
class Policy(PythonKind):
    """A RetryPolicy, or its members as the tools take them."""

    members: Members

    def read(self, given: Any) -> Any:
        if not isinstance(given, RetryPolicy):
            members = self.members.read(given)
            if not members:
                raise ValueError("it has no member")
            return retry_policy(members)
        if not is_sound(given):
            raise ValueError("max_attempts is 1 to 100, and the timedeltas have 0 < backoff <= max_backoff")
        return given

    def corrected(self, given: Any) -> Any:
        """Return the members that are understood of words or of a mapping, None where that is nothing."""
        is_text = not isinstance(given, Mapping) or all(isinstance(key, str) for key in given)
        return RetryTerms().corrected(given) if is_text else None


@dataclass(frozen=True, slots=True)
class Raw(Members):
    """The arguments of an agent, which become a part of what a repeat is known by."""

    def read(self, given: Any) -> Any:
        read = Members.read(self, given)
        check_json("raw", read)
        return read


@dataclass(frozen=True, slots=True)
class AwareInstant(PythonKind):
    """An aware datetime: a filter has no zone to place a wall time in."""

    def read(self, given: Any) -> Any:
        if not isinstance(given, datetime):
            raise ValueError(f"{named(given)} is not a datetime")  # noqa: TRY004 - one family for all kinds
        if given.utcoffset() is None:
            raise ValueError("it has no time zone")
        return given


@dataclass(frozen=True, slots=True)
class HandlerList(PythonKind):
    """Handlers and checks of watches; a function that lacks its decorator is named."""

    def read(self, given: Any) -> Any:
        if not isinstance(given, Sequence) or isinstance(given, str | bytes):
            raise ValueError(f"{named(given)} is not a list of handlers")  # noqa: TRY004 - one family for all kinds
        if wrong := [item for item in given if not isinstance(item, Handler | WatchCheck)]:
            raise ValueError(f"{getattr(wrong[0], '__name__', named(wrong[0]))} has no @handler")
        return given
