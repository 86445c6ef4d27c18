"""Payload models read JSON in JSON mode, as strict models need; unknown fields are refused by default."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from pathlib import PurePath
from typing import Any, Final
from uuid import UUID

from duetime.scheduler.errors import InvalidArgument, InvalidArguments
from duetime.scheduler.rules.sanitize import MAX_JSON_LEVELS, check_json
from duetime.scheduler.task import Json
from pydantic import BaseModel
from pydantic_core import SchemaValidator, to_jsonable_python

_CLOSABLE: Final = frozenset({"model", "dataclass", "typed-dict"})
_AS_THEY_ARE: Final = frozenset({"cls", "metadata", "serialization", "default"})
"""Parts of a schema that hold no schema."""

_WRITTEN: Final = (BaseModel, date, time, timedelta, Decimal, Enum, PurePath, UUID)
"""Values of Python that have a JSON form, which a model reads as the same value."""


def read(model: type[BaseModel], payload: Mapping[str, Json]) -> BaseModel:
    """Return what a model makes of a JSON object. Raises `ValidationError`, or whatever code of the model raises."""
    found: BaseModel = _reader(model).validate_json(json.dumps(payload))
    return found


def stored_form(value: BaseModel, given: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return the JSON to store for a payload that was read as `value`: with defaults, if it is read as `value` again.

    Else it is stored as it was given: computed fields, serializers and aliases make a dump no input.
    """
    dumped: dict[str, Json] = value.model_dump(mode="json", by_alias=True)
    check_bounds(dumped)  # a model may have made more of it
    return dumped if _is_read_as(value, dumped) else dict(given)


def as_json(payload: Any) -> Any:
    """Return a payload as JSON: a model, and values of Python that have a JSON form, become that.

    Raises InvalidArguments for a model that loses something as JSON. Anything else is left to `check_bounds`.
    """
    return _of_model(payload) if isinstance(payload, BaseModel) else _written(payload, MAX_JSON_LEVELS)


def check_bounds(payload: object) -> None:
    """Raise InvalidArguments unless it is a JSON object that every database keeps."""
    if not isinstance(payload, Mapping):
        raise InvalidArguments([InvalidArgument("payload", "is not an object", example='{"message": "Stretch"}')])
    try:
        check_json("payload", payload)
    except InvalidArgument as problem:
        raise InvalidArguments([problem]) from None


def _of_model(value: BaseModel) -> Any:
    for by_alias in (True, False):
        dumped = value.model_dump(mode="json", by_alias=by_alias, round_trip=True)
        if _is_read_as(value, dumped):
            return dumped
    accepted = "the JSON object that the model reads"
    raise InvalidArguments([InvalidArgument("payload", "its model is not read from its own dump", accepted=accepted)])


def _is_read_as(value: BaseModel, dumped: Mapping[str, Json]) -> bool:
    try:
        return bool(read(type(value), dumped) == value)
    except Exception:  # noqa: BLE001 - validators may raise anything for a value that no caller has sent
        return False


def _written(value: Any, levels: int) -> Any:
    if isinstance(value, _WRITTEN):
        return to_jsonable_python(value, by_alias=True)
    if levels and isinstance(value, Mapping):
        return {key: _written(item, levels - 1) for key, item in value.items()}
    if levels and isinstance(value, list | tuple):
        return [_written(item, levels - 1) for item in value]
    return value


@lru_cache(maxsize=1_000)
def _reader(model: type[BaseModel]) -> SchemaValidator:
    """Build the validator of a model whose parts refuse unknown fields unless they have a rule of their own.

    The argument `extra` of pydantic would replace the rule of every model within.
    """
    model.model_rebuild()
    return SchemaValidator(_closed(model.__pydantic_core_schema__), _use_prebuilt=False)  # else parts keep their own


def _closed(schema: Any) -> Any:
    if isinstance(schema, list | tuple):
        return type(schema)(_closed(part) for part in schema)
    if not isinstance(schema, dict):
        return schema
    closed = {name: part if name in _AS_THEY_ARE else _closed(part) for name, part in schema.items()}
    if closed.get("type") in _CLOSABLE:
        closed["config"] = {"extra_fields_behavior": "forbid", **(closed.get("config") or {})}
    return closed
