"""Blanks in a payload: members that a strict client sent only because its schema names them.

The schema of a tool names the members of every built-in action, and a strict client fills in all of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from duetime.scheduler.handlers import Handler
from duetime.scheduler.handlers.reminder import ReminderPayload
from duetime.scheduler.handlers.webhook import WebhookPayload
from duetime.scheduler.task import Json
from pydantic import BaseModel
from pydantic.fields import FieldInfo

BUILT_IN: tuple[type[BaseModel], ...] = (ReminderPayload, WebhookPayload)
EMPTY_TEXTS: tuple[Json, ...] = (None, "")
EMPTY: tuple[Json, ...] = (*EMPTY_TEXTS, {}, [])
_NAMED: Mapping[str, FieldInfo] = {name: field for model in BUILT_IN for name, field in model.model_fields.items()}


def without_blanks(handler: Handler, given: Mapping[str, Json]) -> Mapping[str, Json]:
    """Leave out empty members of other built-in actions, and empty optional ones of a built-in action itself."""
    if _is_open(handler) or not hasattr(given, "items"):  # a program may give anything; the check names it
        return given
    own = handler.payload_model.model_fields if handler.payload_model else {}
    optional = [name for name, field in own.items() if not field.is_required()]
    known = optional if handler.payload_model in BUILT_IN else []
    return {
        name: value
        for name, value in given.items()
        if not (value in EMPTY_TEXTS if name in known else name not in own and _is_blank(name, value))
    }


def _is_open(handler: Handler) -> bool:
    """Whether a handler takes members of any name, so that none of them can be another action's."""
    model = handler.payload_model
    return handler.takes_payload if model is None else model.model_config.get("extra") == "allow"


def _is_blank(name: str, value: Json) -> bool:
    if name not in _NAMED:
        return False
    return value in EMPTY or value == _NAMED[name].get_default(call_default_factory=True, validated_data={})
