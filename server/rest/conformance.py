"""Whether a JSON value is as a published schema says: what the document promises is exactly what is accepted.

The tools forgive a number that comes as text, since models write such. Programs get the mistake named instead. Only the
keywords are read that the kinds of `duetime.tools.arguments.types` write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from duetime.scheduler.task import Json
from duetime.tools.arguments.types import named, out_of_range, shown

JsonSchema = Mapping[str, Any]

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
_WORDS: Final = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}


def misfit(value: Json, schema: JsonSchema) -> str | None:
    """Say in a few words why a value does not fit a schema, None when it does."""
    if "anyOf" in schema:
        return _misfit_of_all(value, schema["anyOf"])
    wanted = schema.get("type", "")
    if not _is_a(value, wanted):
        text = shown(value) if isinstance(value, str) and wanted in {"integer", "number"} else named(value)
        return f"{text} is not {_WORDS[wanted]}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{shown(str(value))} is not one of them"
    if wanted == "integer" and isinstance(value, int | float) and not _within(value, schema):
        return out_of_range(value)
    return _misfit_inside(value, schema)


def _misfit_of_all(value: Json, forms: Sequence[JsonSchema]) -> str | None:
    """Say why a value fits none of several schemas: by the one of its kind, or else by the first."""
    if any(misfit(value, form) is None for form in forms):
        return None
    alike = (form for form in forms if _is_a(value, form.get("type", "")))
    return misfit(value, next(alike, forms[0]))


def _is_a(value: Json, wanted: str) -> bool:
    if wanted == "number":
        return not isinstance(value, bool) and isinstance(value, int | float)
    if wanted == "integer":  # 5.0 is one to JSON Schema
        return not isinstance(value, bool) and isinstance(value, int | float) and value % 1 == 0
    return not wanted or isinstance(value, _TYPES[wanted])


def _within(value: Any, schema: JsonSchema) -> bool:
    least, greatest = schema.get("minimum", value), schema.get("maximum", value)
    return bool(least <= value <= greatest)


def _misfit_inside(value: Json, schema: JsonSchema) -> str | None:
    if isinstance(value, dict):
        return _misfit_of_members(value, schema)
    return _misfit_of_items(value, schema) if isinstance(value, list) else None


def _misfit_of_items(values: Sequence[Json], schema: JsonSchema) -> str | None:
    if not schema.get("minItems", 0) <= len(values) <= schema.get("maxItems", len(values)):
        return f"it has {len(values)} items"
    expected = schema.get("items", {})
    return next((f"in it, {wrong}" for wrong in (misfit(each, expected) for each in values) if wrong), None)


def _misfit_of_members(value: Mapping[str, Json], schema: JsonSchema) -> str | None:
    known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    for name, member in value.items():
        expected = known.get(name, others)
        if expected is False:
            return f"it has no member {shown(name)}"
        wrong = misfit(member, expected) if isinstance(expected, Mapping) else None
        if wrong:
            return f"{shown(name)}: {wrong}"
    return None
