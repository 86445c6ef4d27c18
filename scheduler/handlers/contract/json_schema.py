"""JSON Schemas of results, bounded so that no schema keeps a worker busy; the library is loaded when first used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.rules.sanitize import check_json, clean_text
from duetime.scheduler.task import Json

MAX_RESULT_SCHEMA_BYTES: Final = 8 * 1024
MAX_RESULT_SCHEMA_LEVELS: Final = 16
MAX_PROBLEM_CHARS: Final = 200
_REFUSED: Final = ("$ref", "$dynamicRef", "$recursiveRef", "pattern", "patternProperties")
"""Keywords that can make a small schema endless: references and regular expressions."""


def check_schema(argument: str, schema: Json) -> None:
    """Raise `InvalidArgument` unless it is a schema that can be checked in bounded time."""
    check_json(argument, schema, max_bytes=MAX_RESULT_SCHEMA_BYTES, max_depth=MAX_RESULT_SCHEMA_LEVELS)
    if not isinstance(schema, Mapping):
        raise _no_schema(argument, "is not an object")
    refused = next((name for name in _keywords(schema) if name in _REFUSED), None)
    if refused is not None:
        raise _no_schema(argument, f"has {refused!r}, which is not supported")
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - most processes check none
    from jsonschema.exceptions import SchemaError  # noqa: PLC0415 - as above

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise _no_schema(argument, clean_text(error.message, MAX_PROBLEM_CHARS, lines=False)) from None


def mismatch(schema: Mapping[str, Any], value: Json) -> str:
    """Say where a value does not meet a schema first; empty when it meets it."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - as above

    error = next(iter(Draft202012Validator(schema).iter_errors(value)), None)
    if error is None:
        return ""
    return clean_text(f"{error.json_path.replace('$', 'result', 1)}: {error.message}", MAX_PROBLEM_CHARS, lines=False)


def _no_schema(argument: str, problem: str) -> InvalidArgument:
    accepted = f"a JSON Schema of at most {MAX_RESULT_SCHEMA_BYTES:,} bytes, without references and regular expressions"
    return InvalidArgument(argument, problem, accepted=accepted, example='{"required": ["order_id"]}')


def _keywords(schema: Json) -> Iterator[str]:
    pending: list[Any] = [schema]
    while pending:
        item = pending.pop()
        if isinstance(item, Mapping):
            yield from item
            pending += item.values()
        elif isinstance(item, Sequence) and not isinstance(item, str):
            pending += item
