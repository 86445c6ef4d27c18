"""External actions: their runs are executed elsewhere, by workers that claim them over MCP.

Such an action is declared by settings alone. Its handler checks payloads, and holds what every action declares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, Final, cast

from duetime.scheduler.chain.result_schema import mismatch
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.handlers.context import Context
from duetime.scheduler.handlers.contract.expectation import check_schema
from duetime.scheduler.handlers.declaration import Handler
from duetime.scheduler.outcomes import Failed
from duetime.scheduler.rules.sanitize import clean_text
from duetime.scheduler.task import Json

_OF_TYPES: Final[Mapping[str, Json]] = {
    "string": "text",
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "array": [],
    "object": {},
    "null": None,
}
"""A value of each type, for examples."""

MAX_EXAMPLE_MEMBERS: Final = 8
MAX_EXAMPLE_CHARS: Final = 200
MAX_PROBLEM_CHARS: Final = 160


def external_action(
    name: str,
    *,
    description: str,
    payload: Mapping[str, Any] | None,
    needs: Mapping[str, int],
    time_limit: timedelta,
    lease: timedelta,
) -> Handler:
    """Return the handler of an external action; `payload` is the JSON Schema of its payloads, None for any.

    Raises `HandlerError` for a wrong name, need or limit.
    """
    return Handler(
        name=name,
        fn=_executed_elsewhere,
        time_limit=time_limit,
        needs=needs,
        description=description,
        verify=None if payload is None else partial(_problems, payload),
        lease=lease,
        payload_schema=payload,
    )


def check_payload_schema(schema: Mapping[str, Any]) -> None:
    """Raise `InvalidArgument` unless a schema describes objects, and can be checked in bounded time."""
    check_schema("payload", schema)
    if schema.get("type", "object") != "object":
        raise InvalidArgument(
            "payload",
            f"it has the type {str(schema['type'])[:40]!r}, and every payload is an object",
            accepted='a JSON Schema of the type "object"',
            example='{"type": "object", "properties": {"url": {"type": "string"}}}',
        )


def _executed_elsewhere(_ctx: Context, _payload: Mapping[str, Json]) -> Failed:
    return Failed("its action is executed by external workers alone")


def _problems(schema: Mapping[str, Any], payload: Mapping[str, Json]) -> Iterable[InvalidArgument]:
    """Yield how a payload differs from its schema, if it does, with a payload that meets it."""
    found = mismatch(schema, payload)
    if found is not None:
        path, _, problem = found.partition(": ")
        example = example_of(schema, payload, lambda each: mismatch(schema, each) is None)
        problem = clean_text(problem, MAX_PROBLEM_CHARS, lines=False)
        yield InvalidArgument(path.replace("$", "payload", 1), problem, accepted=_accepted(schema), example=example)


def _accepted(schema: Mapping[str, Any]) -> str:
    """Name the members that a schema describes, those that it requires first."""
    members, required = _members(schema), _required(schema)
    names = [*required, *(f"{name} (optional)" for name in members if name not in required)][:MAX_EXAMPLE_MEMBERS]
    return f"an object of {', '.join(names)}" if names else "an object that meets the schema of the action"


def example_of(
    schema: Mapping[str, Any], given: Mapping[str, Json], meets: Callable[[Mapping[str, Json]], bool]
) -> str:
    """Return a payload that `meets` the schema, with what was `given` where that fits; "" where none is found."""
    members = _members(schema)
    needed = {name: _value(members.get(name, {})) for name in _required(schema)[:MAX_EXAMPLE_MEMBERS]}
    for kept in ({name: value for name, value in given.items() if name in members}, {}):
        candidate = {**needed, **kept}
        if meets(candidate) and len(str(candidate)) <= MAX_EXAMPLE_CHARS:
            return f"payload={candidate}"
    return ""


def _members(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    found = schema.get("properties", {})
    return found if isinstance(found, Mapping) else {}


def _required(schema: Mapping[str, Any]) -> list[str]:
    found = schema.get("required", [])
    return [str(name) for name in found] if isinstance(found, list | tuple) else []


def _value(schema: Any) -> Json:
    """Return a value for a member: an example, the default or a choice of its schema, else one of its type."""
    if not isinstance(schema, Mapping):
        return "text"
    for one in ("const", "default"):
        if one in schema:
            return cast("Json", schema[one])
    for several in ("examples", "enum"):
        if isinstance(schema.get(several), list) and schema[several]:
            return cast("Json", schema[several][0])
    if isinstance(schema.get("minimum"), int):
        return cast("Json", schema["minimum"])
    kind = schema.get("type", "string")
    return _OF_TYPES.get(kind if isinstance(kind, str) else str(kind[0]), "text")
