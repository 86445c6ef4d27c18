"""Messages between a worker and the process of one attempt: a JSON object a line, each with one key as its kind.

From the worker: `run` (an `Assignment`, first), `interrupt` (why), `answer` (to a call). From the process: `call` (a
method of `Link`), `log` (a log record), `traceback` (of what the handler raised). In the end comes `outcome`, or
`interrupted` when an interrupt has stopped it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from importlib import import_module
from typing import Any, Final, get_args

from duetime.scheduler.access.secret import SecretUnavailable
from duetime.scheduler.errors import HandlerError, StoreUnavailable
from duetime.scheduler.handlers.context import Context, Link
from duetime.scheduler.outcomes import Outcome
from duetime.scheduler.runtime.attempt_context import AttemptName
from duetime.scheduler.task import Json
from pydantic import TypeAdapter

_OUTCOMES: Final = {kind.__name__: kind for kind in get_args(Outcome)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextFacts:
    """The fields of a `Context`, without its link."""

    task_id: str
    run_id: str
    title: str
    scheduled_for: datetime
    attempt: int
    worker: str
    deadline: datetime | None
    labels: tuple[str, ...]
    needs: Mapping[str, int]
    checkpoint_state: Any
    pace: timedelta
    traceparent: str | None
    tracestate: str | None
    timezone: str

    @classmethod
    def of(cls, context: Context) -> ContextFacts:
        return cls(**{name: getattr(context, name) for name in cls.__dataclass_fields__})

    def context(self, link: Link) -> Context:
        return Context(**{name: getattr(self, name) for name in self.__dataclass_fields__}, link=link)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """All that a process needs to run one attempt; `imported` finds `function` and `payload_model`."""

    name: str
    function: str
    payload_model: str | None
    payload: Mapping[str, Json]
    facts: ContextFacts
    path: tuple[str, ...]
    """The worker's module search path."""
    log_levels: Mapping[str, int]
    captures_prints: bool

    @property
    def attempt_name(self) -> AttemptName:
        return AttemptName(self.facts.task_id, self.facts.run_id, self.facts.attempt, self.name)


_ASSIGNMENT: Final = TypeAdapter(Assignment)


def line(kind: str, value: Json, **more: Json) -> bytes:
    return json.dumps({kind: value, **more}, separators=(",", ":")).encode() + b"\n"


def read(received: bytes) -> dict[str, Any]:
    """Return the message of a line; an empty one for a line that a kill or an interrupt cut short."""
    try:
        found = json.loads(received)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def assignment_to_json(assignment: Assignment) -> Any:
    return _ASSIGNMENT.dump_python(assignment, mode="json")


def assignment_from_json(value: Json) -> Assignment:
    return _ASSIGNMENT.validate_json(json.dumps(value))


def outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    kind = type(outcome).__name__
    return {"kind": kind, "fields": _adapter(kind).dump_python(outcome, mode="json")}


def outcome_from_json(value: Mapping[str, Any]) -> Outcome:
    return _adapter(value["kind"]).validate_json(json.dumps(value["fields"]))


@cache
def _adapter(kind: str) -> TypeAdapter[Outcome]:
    return TypeAdapter(_OUTCOMES[kind])


def error_to_json(error: Exception) -> Json:
    named = {"name": error.name, "problem": error.problem} if isinstance(error, SecretUnavailable) else {}
    kind = StoreUnavailable if isinstance(error, StoreUnavailable) else type(error)
    return {"kind": kind.__name__, "text": str(error), **named}


def error_from_json(value: Mapping[str, Any]) -> Exception:
    """Return the exception that a call raised in the worker: a handler may expect an outage of the database."""
    if value["kind"] == StoreUnavailable.__name__:
        return StoreUnavailable(value["text"])
    if value["kind"] == SecretUnavailable.__name__:
        return SecretUnavailable(value["name"], value["problem"])
    return RuntimeError(f"{value['kind']}: {value['text']}")


def reference(thing: Any) -> str:
    """Return where another process finds a function or class: `module:name`. Raises HandlerError when it cannot."""
    module, name = getattr(thing, "__module__", ""), getattr(thing, "__qualname__", "<unnamed>")
    if not module or module == "__main__" or "<" in name or hasattr(thing, "__self__"):
        raise HandlerError(
            f"{module}.{name} cannot be found by another process, as isolation needs it: define it at the top level "
            "of a module that can be imported, not in the script itself and not in a function"
        )
    return f"{module}:{name}"


def imported(where: str) -> Any:
    """Return the object that `reference` named."""
    module, _, name = where.partition(":")
    found: Any = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found
