"""JSON of callers, read strictly and alike on every surface: each name once in an object, and no NaN or Infinity.

A text has a bounded number of levels, too: what reads its values by recursion would fail far above.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

MAX_TEXT_LEVELS = 100
_MAX_NAME_CHARS = 60


class GivenTwice(ValueError):
    """An object has a name twice: a proxy that checked the text may have read the other value."""

    def __init__(self, name: str) -> None:
        super().__init__(f"it names {name[:_MAX_NAME_CHARS]!r} twice")


class NestedTooDeeply(ValueError):
    """A text has more levels of lists and objects than any argument."""

    def __init__(self) -> None:
        super().__init__(f"it is nested too deeply; {MAX_TEXT_LEVELS} levels are the limit")


def strict_json(text: str | bytes) -> Any:
    """Return the value of a JSON text.

    Raises ValueError, which says why: also GivenTwice, NestedTooDeeply or json.JSONDecodeError.
    """
    try:
        value = json.loads(text, parse_constant=_no_number, object_pairs_hook=_of_pairs)
    except RecursionError:
        raise NestedTooDeeply from None
    if _bracket_count(text) > MAX_TEXT_LEVELS and _is_deep(value):
        raise NestedTooDeeply
    return value


def _bracket_count(text: str | bytes) -> int:
    return text.count("[") + text.count("{") if isinstance(text, str) else text.count(b"[") + text.count(b"{")


def _is_deep(value: Any) -> bool:
    """Whether a value has too many levels; they are gone through one by one, without recursion."""
    inside = [value]
    for _ in range(MAX_TEXT_LEVELS):
        found = [each for each in inside if isinstance(each, dict | list)]
        if not found:
            return False
        inside = [inner for each in found for inner in (each.values() if isinstance(each, dict) else each)]
    return any(isinstance(each, dict | list) for each in inside)


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number of JSON")


def _of_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise GivenTwice(name)
        found[name] = value
    return found
