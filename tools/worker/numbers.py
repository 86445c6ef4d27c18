"""Numbers that workers report: a part of the work, and units of pools."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from duetime.scheduler.task import Json
from duetime.tools.arguments.types import Object, named, shown


@dataclass(frozen=True, slots=True)
class Fraction:
    """A part of the whole."""

    accepted: str = "a number from 0 to 1"

    def schema(self) -> dict[str, Any]:
        return {"type": "number", "minimum": 0, "maximum": 1}

    def read(self, given: Json) -> float:
        number = _number(given)
        if not 0 <= number <= 1:
            raise ValueError(f"{number:g} is not a part of the work")
        return number


@dataclass(frozen=True, slots=True)
class UnitsUsed:
    """A JSON object of amounts by pool."""

    accepted: str = "an object of numbers by pool"

    def schema(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": {"type": "number", "minimum": 0}}

    def read(self, given: Json) -> dict[str, float]:
        return {name: self._units(name, units) for name, units in Object().read(given).items()}

    def _units(self, name: str, given: Json) -> float:
        try:
            return _number(given)
        except ValueError as error:
            raise ValueError(f"{shown(name)}: {error}") from None


def _number(given: Json) -> float:
    if isinstance(given, str):
        text = given[:40]
        try:
            given = float(text)
        except ValueError:
            raise ValueError(f"{shown(text)} is not a number") from None
    if isinstance(given, bool) or not isinstance(given, int | float) or given != given:  # noqa: PLR0124 - NaN
        raise ValueError(f"{named(given)} is not a number")
    return float(given)
