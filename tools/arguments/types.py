"""The kinds of values that tool arguments take: what the schema says of each, and how a given value is read.

Common mistakes of models that have only one meaning are accepted. Such are an object or a list written as JSON text, a
whole number as text, and one text where a list is expected. A choice in capitals or with other hyphens is accepted too.
Everything else is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from duetime.scheduler.chain.step_parts import meant_amounts, meant_labels
from duetime.scheduler.remedies import MIN_MEMBER_SIMILARITY_RATIO, nearest_name
from duetime.scheduler.task import Json
from duetime.tools.arguments.strict_json import strict_json

MAX_ARGUMENT_CHARS = 2_000
"""Far above what any argument needs; the service has the exact bounds of what it stores."""

MAX_NUMBER_VALUE = 10**9
"""Least likeness of two names of which one is a slip of the other: `whem` of `when`, but not `sort` of `cursor`."""

_MAX_SHOWN_DIGITS = 15
MAX_ITEMS = 100
_WHOLE = re.compile(r"[+-]?[0-9]{1,100}(\.0)?")
_FLAGS = {"true": True, "yes": True, "false": False, "no": False}
_UNWANTED = re.compile("[\x00\ud800-\udfff]")


class ArgumentType(Protocol):
    """One kind of value; `read` raises ValueError with the problem in a few words, never with the value itself."""

    @property
    def accepted(self) -> str: ...

    def schema(self) -> dict[str, Any]: ...

    def read(self, given: Json) -> Json: ...


@runtime_checkable
class Correctable(Protocol):
    """A kind that can write a wrong value as it was meant; `corrected` returns None where nothing of it is right."""

    def corrected(self, given: Json) -> Json: ...


@runtime_checkable
class Parted(Protocol):
    """A kind whose wrong values may stand for several arguments; None where nothing of one is right."""

    def as_arguments(self, name: str, given: Json) -> Mapping[str, Json] | None: ...


@dataclass(frozen=True, slots=True)
class Text:
    """Text of at most `limit` characters."""

    limit: int = MAX_ARGUMENT_CHARS
    accepted: str = "text"

    def schema(self) -> dict[str, Any]:
        return {"type": "string"}

    def read(self, given: Json) -> str:
        if not isinstance(given, str):
            raise ValueError(f"{named(given)} is not text")  # noqa: TRY004 - one family for all kinds
        if len(given) > self.limit:
            raise ValueError(f"it has {len(given)} characters, the limit is {self.limit}")
        if found := _UNWANTED.search(given):
            raise ValueError(f"it contains the character U+{ord(found[0]):04X}, which is not text")
        return given


@dataclass(frozen=True, slots=True)
class TokenText(Text):
    """A token or an id that an answer had, without what stands around it; no other one is shown in its place."""

    def read(self, given: Json) -> str:
        return Text.read(self, given.strip() if isinstance(given, str) else given)

    def corrected(self, given: Json) -> Json:
        """Return the only text of a list or of an object."""
        return only_text(list(given.values()) if isinstance(given, dict) else given)


def only_text(given: Json) -> str | None:
    """Return the text of a list that has no other item, None for anything else."""
    inner = given[0] if isinstance(given, list) and len(given) == 1 else None
    return inner if isinstance(inner, str) else None


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number within bounds."""

    low: int
    high: int = MAX_NUMBER_VALUE

    @property
    def accepted(self) -> str:
        return f"a whole number from {self.low} to {self.high}"

    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.low, "maximum": self.high}

    def read(self, given: Json) -> int:
        if isinstance(given, str) and _WHOLE.fullmatch(given.strip()):
            given = int(float(given))
        if isinstance(given, bool) or not isinstance(given, int | float) or given != given or given % 1:  # noqa: PLR0124 - NaN
            text = shown(given) if isinstance(given, str) else _number(given) or named(given)
            raise ValueError(f"{text} is not a whole number")
        if not self.low <= given <= self.high:
            raise ValueError(out_of_range(given))
        return int(given)


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""

    accepted: str = "true or false"

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}

    def read(self, given: Json) -> bool:
        if isinstance(given, str) and given.strip().lower() in _FLAGS:
            return _FLAGS[given.strip().lower()]
        if not isinstance(given, bool):
            raise ValueError(f"{named(given)} is neither true nor false")  # noqa: TRY004 - one family for all kinds
        return given


@dataclass(frozen=True, slots=True)
class Object:
    """A JSON object, or its JSON text; `parts` bounds its members by kind, None leaves them to the service.

    `usual` has the schemas of members that are named to clients: a strict one admits no others. Members that words
    describe need not be `listed` again. A member that stands for none is left out, and refused where not `fillable`.
    """

    parts: Mapping[str, Whole | Text] | None = None
    usual: Mapping[str, Any] = field(default_factory=dict)
    listed: bool = True
    fillable: bool = True

    @property
    def accepted(self) -> str:
        return f"an object with {', '.join(self.parts)}" if self.parts else "an object"

    def schema(self) -> dict[str, Any]:
        if not self.listed:
            return {"type": "object"}
        if self.parts is None:
            return {"type": "object", "properties": dict(self.usual), "additionalProperties": True}
        members = {name: kind.schema() for name, kind in self.parts.items()}
        return {"type": "object", "properties": members, "additionalProperties": False}

    def read(self, given: Json) -> dict[str, Json]:
        value = from_json_text(given) if isinstance(given, str) else given
        if not isinstance(value, dict):
            raise ValueError(f"{named(given)} is not an object")  # noqa: TRY004 - one family for all kinds
        return value if self.parts is None else self._members(value, self.parts)

    def _members(self, value: dict[str, Json], parts: Mapping[str, Whole | Text]) -> dict[str, Json]:
        read: dict[str, Json] = {}
        for name, member in value.items():
            if name not in parts:
                near = nearest_name(name.lower(), parts, min_ratio=MIN_MEMBER_SIMILARITY_RATIO)
                raise ValueError(f"it has no member {shown(name)}{f'; did you mean {near}' if near else ''}")
            if self.fillable and is_blank(member, parts[name]):
                continue
            try:
                read[name] = parts[name].read(member)
            except ValueError as error:
                raise ValueError(f"{name}: {error}; {parts[name].accepted} is accepted") from None
        return read


@dataclass(frozen=True, slots=True)
class Amounts:
    """A JSON object of whole numbers by name, or its JSON text."""

    accepted: str = "an object of whole numbers by name"

    def schema(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": Whole(1).schema()}

    def read(self, given: Json) -> dict[str, int]:
        return {name: self._amount(name, member) for name, member in Object().read(given).items()}

    def _amount(self, name: str, given: Json) -> int:
        try:
            return Whole(1).read(given)
        except ValueError as error:
            raise ValueError(f"{shown(name)}: {error}; {Whole(1).accepted} is accepted") from None

    def corrected(self, given: Json) -> Json:
        """Return the amounts that are meant: one unit of what is named without a number."""
        return meant_amounts(given)


@dataclass(frozen=True, slots=True)
class Texts:
    """A list of texts, its JSON text, or one text alone; an error shows several with commas as a list if `listed`."""

    limit: int = MAX_ITEMS
    accepted: str = "a list of texts"
    listed: bool = False

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": {"type": "string"}}

    def read(self, given: Json) -> list[str]:
        value = _several(given) if isinstance(given, str) else given
        if not isinstance(value, list):
            raise ValueError(f"{named(given)} is not a list of texts")  # noqa: TRY004 - one family for all kinds
        if len(value) > self.limit:
            raise ValueError(f"it has {len(value)} items, the limit is {self.limit}")
        return [Text().read(item) for item in value]

    def corrected(self, given: Json) -> Json:
        """Return the parts of one text as a list; None where they could mean something else."""
        return _split(given) if self.listed and isinstance(given, str) else None


@dataclass(frozen=True, slots=True)
class LabelTexts(Texts):
    """Texts that other tools have as an object of values by name."""

    listed: bool = True

    def corrected(self, given: Json) -> Json:
        """Return the labels that are meant: `team=x` of an object with a team."""
        return Texts.corrected(self, given) if isinstance(given, str) else meant_labels(given)


def _split(text: str) -> list[str]:
    return [part for part in (each.strip(" '\"[]") for each in text.split(",")) if part]


def _several(text: str) -> Any:
    if text.lstrip().startswith("["):
        return from_json_text(text)
    if "," in text:
        raise ValueError("several in one text could mean several things")
    return [text]


def is_blank(given: Json, kind: ArgumentType) -> bool:
    """Whether a value stands for none: strict clients fill in every argument, and what they leave out they send empty.

    0 is empty where the least number is 1.
    """
    if isinstance(kind, Whole) and kind.low > 0 and type(given) in {int, float}:
        return given == 0
    return given is None or given in ("", {}, [])


def from_json_text(text: str) -> Any:
    """Return what the JSON text says, or None when it is none (too deep, a name given twice included)."""
    try:
        return strict_json(text)
    except ValueError:
        return None


def named(given: Any) -> str:
    """Name the kind of a value, for a sentence that must not repeat it; what JSON has not, by its type."""
    names = {bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list", dict: "an object"}
    return names.get(type(given)) or ("nothing" if given is None else f"{type(given).__name__} value")


def out_of_range(given: float) -> str:
    """Say that a number is out of range; one that is too long to read is not repeated."""
    return f"{f'{given:.15g}' if abs(given) < 10**_MAX_SHOWN_DIGITS else 'it'} is out of range"


def _number(given: Json) -> str:
    return f"{given:g}" if isinstance(given, float) else ""


def shown(text: str) -> str:
    """Quote a short text in a sentence: cut, on one line, and with nothing in it that could not be sent."""
    printable = "".join(character if character.isprintable() else "?" for character in text[:40])
    return f"'{printable}{'…' if len(text) > len(printable) else ''}'"
