"""The kind of the argument `retry`: an object of whole numbers, with lengths of time in words, or a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from duetime.scheduler.request import RETRY_ACCEPTED, RETRY_BOUNDS
from duetime.scheduler.rules.failures.retry_words import retry_members, seconds_in_words, understood
from duetime.scheduler.task import Json
from duetime.tools.arguments.types import MIN_SIMILARITY_RATIO, Object, Whole, from_json_text, is_blank, named

_MEMBERS: Final = {name: Whole(*bounds) for name, bounds in RETRY_BOUNDS.items()}
_IN_WORDS: Final = {"backoff": "backoff_seconds", "max_backoff": "max_backoff_seconds"}
"""Members that name no unit: their values do."""

_MEANT: Final = {
    **dict.fromkeys(("attempts", "tries", "count", "times", "limit", "maxattempts"), "max_attempts"),
    **dict.fromkeys(("delay", "interval", "pause", "wait", "delay_seconds", "initial_backoff"), "backoff_seconds"),
    **dict.fromkeys(("max_delay", "max_interval", "cap"), "max_backoff_seconds"),
}
"""Names that other tools have for a member."""

_RETRIES: Final = frozenset({"retries", "max_retries", "maxretries"})


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
            meant = [_meant_member(name, each) for name, each in value.items()]
            members = dict(filter(None, meant))
        else:
            members = dict(understood(given)) if isinstance(given, str) else {}
        fitting = {name: each for name, each in members.items() if _fits(name, each)}
        if fitting.get("backoff_seconds", 0) > fitting.get("max_backoff_seconds", fitting.get("backoff_seconds", 0)):
            del fitting["max_backoff_seconds"]
        return fitting or None


def _in_seconds(name: str, value: Json) -> Json:
    """Return a length of time in words as seconds; anything else, and what is none, as it is."""
    is_length = _IN_WORDS.get(name, name) in _IN_WORDS.values()
    if not is_length or not isinstance(value, str) or not value.strip() or value.strip().isdecimal():
        return value
    return seconds_in_words(value)


def _meant_member(name: str, value: Json) -> tuple[str, int] | None:
    plain = name.strip().lower().replace("-", "_")
    known = _IN_WORDS.get(plain) or _MEANT.get(plain) or ("max_attempts" if plain in _RETRIES else plain)
    if known not in _MEMBERS:
        near = next(
            iter(get_close_matches(plain[:40], (*_MEMBERS, *_IN_WORDS, *_MEANT), n=1, cutoff=MIN_SIMILARITY_RATIO)), ""
        )
        known = _IN_WORDS.get(near) or _MEANT.get(near, near)
    try:
        number = Whole(0).read(_in_seconds(known, value)) + (plain in _RETRIES)
    except ValueError:
        return None
    return (known, number) if known in _MEMBERS else None


def _fits(name: str, number: int) -> bool:
    least, most = RETRY_BOUNDS[name]
    return least <= number <= most
