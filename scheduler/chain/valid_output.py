"""The JSON Schema that the result of an upstream has to meet: which schemas are accepted.

A result is checked in the transaction that settles it, behind locks. So a schema has only keywords whose cost is
bounded by its own size and that of the result. It has no pattern, no reference, and no comparison of each item with
every other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from duetime.scheduler.chain.result_schema import form_problem
from duetime.scheduler.errors import InvalidArgument

MAX_OUTPUT_SCHEMA_BYTES: Final = 4_096
MAX_OUTPUT_SCHEMA_LEVELS: Final = 16
_ACCEPTED: Final = f"a JSON Schema of at most {MAX_OUTPUT_SCHEMA_BYTES:,} bytes and {MAX_OUTPUT_SCHEMA_LEVELS} levels"
_EXAMPLE: Final = "valid_output={'type': 'object', 'required': ['rows']}"
_OF_ONE: Final = frozenset({"additionalProperties", "items", "contains", "not"})
_OF_MANY: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_OTHERS: Final = (
    "type enum const required minimum maximum exclusiveMinimum exclusiveMaximum minLength maxLength minItems maxItems "
    "minProperties maxProperties title description $schema"
)
KEYWORDS: Final = frozenset({"properties", *_OF_ONE, *_OF_MANY, *_OTHERS.split()})


def check_schema(schema: Any) -> None:
    """Raise InvalidArgument unless this is a schema by which results can be checked."""
    if not isinstance(schema, Mapping):
        raise _wrong("it is not an object")
    try:
        text = json.dumps(schema, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise _wrong("it is not JSON, or nested too deeply") from None
    if len(text.encode()) > MAX_OUTPUT_SCHEMA_BYTES:
        raise _wrong(f"it has {len(text.encode()):,} bytes")
    for part, level in _parts(schema, 1):
        if level > MAX_OUTPUT_SCHEMA_LEVELS:
            raise _wrong(f"it has more than {MAX_OUTPUT_SCHEMA_LEVELS} levels")
        if unknown := [str(name) for name in part if name not in KEYWORDS]:
            raise _wrong(f"{unknown[0][:40]!r} is not a supported keyword", accepted=", ".join(sorted(KEYWORDS)))
    if problem := form_problem(schema):
        raise _wrong(problem)


def _parts(schema: Mapping[str, Any], level: int) -> Iterator[tuple[Mapping[str, Any], int]]:
    """Yield each schema inside this one, with its depth."""
    yield schema, level
    if level > MAX_OUTPUT_SCHEMA_LEVELS:
        return
    inner = [schema[name] for name in _OF_ONE if name in schema]
    inner += [each for name in _OF_MANY for each in _listed(schema.get(name))]
    named = schema.get("properties")
    inner += named.values() if isinstance(named, Mapping) else ()
    for each in inner:
        if isinstance(each, Mapping):
            yield from _parts(each, level + 1)


def _listed(given: Any) -> list[Any]:
    return given if isinstance(given, list) else []


def _wrong(problem: str, *, accepted: str = _ACCEPTED) -> InvalidArgument:
    return InvalidArgument("valid_output", problem, accepted=accepted, example=_EXAMPLE)
