"""JSON of callers, read strictly and alike on every surface: each name once in an object, and no NaN or Infinity."""

from __future__ import annotations

import json
from typing import Any, NoReturn

_MAX_NAME_CHARS = 60


class GivenTwice(ValueError):
    """An object has a name twice: a proxy that checked the text may have read the other value."""

    def __init__(self, name: str) -> None:
        super().__init__(f"it names {name[:_MAX_NAME_CHARS]!r} twice")


def strict_json(text: str | bytes) -> Any:
    """Return the value of a JSON text. Raises ValueError, which says why: also GivenTwice or json.JSONDecodeError."""
    try:
        return json.loads(text, parse_constant=_no_number, object_pairs_hook=_of_pairs)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number of JSON")


def _of_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise GivenTwice(name)
        found[name] = value
    return found
