"""The kinds of arguments that are times, in words or as ISO 8601, and lengths of time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.rules.time.times import resolve
from duetime.scheduler.task import Json
from duetime.tools.arguments.types import MAX_NUMBER_VALUE, Flag, Text, only_text, out_of_range

_MIN_EPOCH_S, _MAX_EPOCH_S = 10**9, 10**10
_ZONES: Final = ("timezone", "tz")
_KINDS: Final = ("type", "kind")
_BEFORE_AN_END: Final = re.compile(r"^(until|till|for)\s+", re.IGNORECASE)
_NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""A now that shows whether a text is a time; the call has its own."""

_UNITS: Final = ("days", "hours", "minutes", "seconds")


@dataclass(frozen=True, slots=True)
class TimeText(Text):
    """A time in words, or as ISO 8601."""

    accepted: str = "a time"

    def as_arguments(self, name: str, given: Json) -> Mapping[str, Json] | None:
        """Return a date and a time as one text, with their zone apart; a length as the time after it.

        A number is seconds since 1970.
        """
        if isinstance(given, int) and not isinstance(given, bool) and _MIN_EPOCH_S <= given < _MAX_EPOCH_S:
            return {name: f"{datetime.fromtimestamp(given, UTC):%Y-%m-%dT%H:%M:%S}+00:00"}
        if not isinstance(given, dict):
            only = only_text(given)
            return {name: only} if only else None
        plain = {key.replace("_", "").lower(): value for key, value in given.items()}
        zone = next(({"timezone": plain[key]} for key in _ZONES if key in plain), {})
        text = _text({key: value for key, value in plain.items() if key not in (*_ZONES, *_KINDS)})
        return {name: text[: self.limit], **zone} if text else None


@dataclass(frozen=True, slots=True)
class Length:
    """A length of time: words, or a number of seconds."""

    limit: int = 200
    accepted: str = "a duration in words, or seconds"
    every_form: bool = False

    def schema(self) -> dict[str, Any]:
        """Return its schema: models are led to words, programs with `every_form` may send a number."""
        return {"anyOf": [{"type": "string"}, {"type": "number"}]} if self.every_form else {"type": "string"}

    def read(self, given: Json) -> str | float:
        if isinstance(given, int | float) and not isinstance(given, bool):
            return _seconds(given)
        return Text(self.limit).read(given)


def _seconds(given: float) -> float:
    if not 0 < given <= MAX_NUMBER_VALUE:
        raise ValueError(out_of_range(given))
    return given


@dataclass(frozen=True, slots=True)
class PauseFlag(Flag):
    """True or false; a time or a length is the end of a pause, which is another argument."""

    def as_arguments(self, name: str, given: Json) -> Mapping[str, Json] | None:  # noqa: ARG002 - the argument of the end
        """Return the end of the pause that is meant."""
        found = given.get("until") if isinstance(given, dict) and len(given) == 1 else given
        text = _BEFORE_AN_END.sub("", found.strip()) if isinstance(found, str) else ""
        return next(({"pause_until": each} for each in (text, f"in {text}") if text and is_time(each)), None)


def is_time(text: str) -> bool:
    """Whether a text is a time to come, wherever it is read."""
    try:
        resolve(text, now=_NOW, zone="UTC")
    except InvalidArgument:
        return False
    return True


def _text(given: Mapping[str, Json]) -> str:
    if given and all(unit in _UNITS and isinstance(value, int) for unit, value in given.items()):
        return f"in {' '.join(f'{given[unit]} {unit}' for unit in _UNITS if unit in given)}"
    if not all(isinstance(value, str) for value in given.values()):
        return ""
    return " ".join(str(given[key]) for key in sorted(given, key=lambda key: key == "time"))
