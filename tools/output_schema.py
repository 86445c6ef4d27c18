"""Output schemas that every client can read: without titles and null unions, and open for fields that come later."""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import BaseModel

_NOISE = frozenset({"title", "description", "default", "additionalProperties"})


@cache
def output_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema of what a tool answers, where an absent part is left out and never null."""
    return dict(_plain(model.model_json_schema(by_alias=True)))


def _plain(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "anyOf" in schema and {"type": "null"} in schema["anyOf"]:
        rest = [item for item in schema["anyOf"] if item != {"type": "null"}]
        return _plain(rest[0] if len(rest) == 1 else {"anyOf": rest})
    return {key: _named(key, value) for key, value in schema.items() if key not in _NOISE or _is_map(key, value)}


def _is_map(key: str, value: Any) -> bool:
    """Tell a real map (`counts`: state to number), where additionalProperties says what the values are."""
    return key == "additionalProperties" and isinstance(value, dict)


def _named(key: str, value: Any) -> Any:
    if key in {"properties", "$defs"}:
        return {name: _plain(part) for name, part in value.items()}
    return _plain(value)
