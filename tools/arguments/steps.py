"""The argument that makes a chain: its schema names the usual parts of a step, the service checks all."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from duetime.scheduler.chain.step_parts import meant_part
from duetime.scheduler.task import Json
from duetime.tools.arguments.arguments import Argument
from duetime.tools.arguments.retry import RetryTerms
from duetime.tools.arguments.types import Object, Texts, from_json_text, named

_OBJECTS = frozenset(("payload", "needs", "expect", "on_failure", "wait_for", "approval", "valid_output", "retry"))
"""Parts of a step that are objects."""


@dataclass(frozen=True, slots=True)
class SchemaObject:
    """A JSON Schema as an object, or its JSON text."""

    accepted: str = "a JSON Schema"

    def schema(self) -> dict[str, Any]:
        return {"type": "object"}

    def read(self, given: Json) -> dict[str, Json]:
        return Object().read(given)


@dataclass(frozen=True, slots=True)
class Steps:
    """A list of objects, or its JSON text; the service reads each of them."""

    accepted: str = "a list of objects, each with a name"

    def schema(self) -> dict[str, Any]:
        texts = Texts().schema()
        members: dict[str, Any] = {
            "name": {"type": "string"},
            "action": {"type": "string"},
            "payload": {"type": "object"},
        }
        members |= {"after": texts, "needs": {"type": "object"}, "estimate": {"type": "string"}}
        return {"type": "array", "items": {"type": "object", "properties": members, "required": ["name"]}}

    def read(self, given: Json) -> list[Any]:
        value = from_json_text(given) if isinstance(given, str) else given
        if not isinstance(value, list | tuple):
            raise ValueError(f"{named(given)} is not a list of objects")  # noqa: TRY004 - one family for all kinds
        return [_as_meant(step) for step in value]


def _as_meant(step: Any) -> Any:
    """Return a step with objects that were written as JSON text, and its retries as numbers, if they are understood."""
    if not isinstance(step, dict):
        return step
    objects = {name: from_json_text(value) for name, value in step.items() if isinstance(value, str)}
    read = {**step, **{name: each for name, each in objects.items() if name in _OBJECTS and isinstance(each, dict)}}
    return {name: _as_retries(name, each) if meant_part(str(name)) == "retry" else each for name, each in read.items()}


def _as_retries(name: str, given: Any) -> Any:
    """Return retries as numbers, those of a misnamed part as well; what is not understood stays refused.

    The service corrects an object by its numbers: a member that is none says that there was more.
    """
    is_number = not isinstance(given, str | dict) or str(given).strip().isdecimal()
    if given is None or (name != "retry" and is_number):
        return given
    with suppress(ValueError):
        return RetryTerms().read(given)
    clear = RetryTerms().corrected(given)
    return {**clear, str(given)[:40]: None} if clear and name == "retry" else clear or given


VALID_OUTPUT = Argument(
    "valid_output",
    SchemaObject(),
    "JSON Schema that their results must meet, else it counts as their failure",
    "valid_output={'type': 'object', 'required': ['rows']}",
)
STEPS = Argument(
    "steps",
    Steps(),
    "A chain instead of one task: a task for each step, which waits for the steps named in its after; the rest as here",
    "steps=[{'name': 'fetch', 'action': 'webhook', 'payload': {'url': 'https://example.com'}}, "
    "{'name': 'report', 'after': ['fetch']}]",
)
