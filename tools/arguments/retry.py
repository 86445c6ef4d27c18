"""The kind of the argument `retry`: an object of whole numbers, with lengths of time in words, or a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from duetime.scheduler.chain.step_parts import meant_member, meant_retry
from duetime.scheduler.request import RETRY_ACCEPTED, RETRY_BOUNDS
from duetime.scheduler.rules.failures.retry_words import retry_members, seconds_in_words, understood
from duetime.scheduler.task import Json
from duetime.tools.arguments.types import Object, Whole, from_json_text, is_blank, named

_MEMBERS: Final = {name: Whole(*bounds) for name, bounds in RETRY_BOUNDS.items()}
_IN_WORDS: Final = {"backoff": "backoff_seconds", "max_backoff": "max_backoff_seconds"}
"""Members that name no unit: their values do."""


@dataclass(frozen=True, slots=True)
class RetryTerms:
    """The retries of a task; members that models know from another tool need not be `listed` again.

    A schema for programs has `every_form`, while models are led to the object. A member that stands for none is refused
    where it is not `fillable`. Where it is, 0 attempts mean no retries, unless a client has filled in all members.
    """

    accepted: str = RETRY_ACCEPTED
    listed: bool = True
    every_form: bool = False
    fillable: bool = True

    def schema(self) -> dict[str, Any]:
        whole = Object(_MEMBERS, listed=self.listed).schema()
        if not self.every_form:
            return whole
        members = {**whole["properties"], **{name: {"type": "string"} for name in _IN_WORDS}}
        return {"anyOf": [{**whole, "properties": members}, {"type": "string"}, {"type": "integer"}]}

    def read(self, given: Json) -> dict[str, Json]:
        value = from_json_text(given) if isinstance(given, str) else given
        if isinstance(value, dict):
            members: dict[str, Json] = {
                _IN_WORDS.get(name) or name: _in_seconds(name, each) for name, each in value.items()
            }
            return self._members(members)
        if isinstance(given, str):
            return self._members(dict(retry_members(given))) if given.strip() else {}
        if isinstance(given, int | float) and not isinstance(given, bool):
            return self._members({"max_attempts": given})
        raise ValueError(f"{named(given)} is no object, and no words either")

    def _members(self, members: dict[str, Json]) -> dict[str, Json]:
        filled_in = all(name in members and is_blank(members[name], kind) for name, kind in _MEMBERS.items())
        attempts = members.get("max_attempts")
        if self.fillable and not filled_in and type(attempts) in {int, float} and attempts == 0:
            members = {**members, "max_attempts": 1}
        return Object(_MEMBERS, fillable=self.fillable).read(members)

    def corrected(self, given: Json) -> dict[str, int] | None:
        """Return what is understood of it, None where that is nothing."""
        value = from_json_text(given) if isinstance(given, str) else given
        if isinstance(value, Mapping):
            return meant_retry(_in_numbers(value))
        return meant_retry(understood(given)) if isinstance(given, str) else None


def _in_seconds(name: str, value: Json) -> Json:
    """Return a length of time in words as seconds; anything else, and what is none, as it is."""
    is_length = _IN_WORDS.get(name, name) in _IN_WORDS.values()
    if not is_length or not isinstance(value, str) or not value.strip() or value.strip().isdecimal():
        return value
    return seconds_in_words(value)


def _in_numbers(members: Mapping[str, Json]) -> dict[str, Json]:
    """Return members, whatever they are called, with whole numbers and lengths of time as numbers."""
    return {name: _number(name, value) for name, value in members.items()}


def _number(name: str, value: Json) -> Json:
    meant = meant_member(name)
    with suppress(ValueError):
        return Whole(0).read(_in_seconds(meant[0] if meant else name, value))
    return value
