"""Payloads of handlers: their models read JSON in JSON mode, as strict models need, and errors have our own words.

Unknown fields are refused by default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from pathlib import PurePath
from typing import Any, Final
from uuid import UUID

from duetime.scheduler.errors import InvalidArgument, InvalidArguments
from duetime.scheduler.remedies import nearest_name
from duetime.scheduler.rules.sanitize import MAX_JSON_LEVELS, check_json, clean_text, kind_of
from duetime.scheduler.task import Json
from pydantic import AliasChoices, BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import SchemaValidator, to_json, to_jsonable_python

_EXAMPLE: Final = '{"message": "Stretch"}'
_CLOSABLE: Final = frozenset({"model", "dataclass", "typed-dict"})
_AS_THEY_ARE: Final = frozenset({"cls", "metadata", "serialization", "default"})
"""Parts of a schema that hold no schema."""

_WRITTEN: Final = (BaseModel, date, time, timedelta, Decimal, Enum, PurePath, UUID)
"""Values of Python that have a JSON form, which a model reads as the same value."""

_JSON_SCALARS: Final = frozenset({str, int, float, bool, type(None)})


def read(model: type[BaseModel], payload: Mapping[str, Json]) -> BaseModel:
    """Return what a model makes of a JSON object. Raises `ValidationError`, or whatever code of the model raises."""
    found: BaseModel = _reader(model).validate_json(to_json(payload))
    return found


def stored_form(value: BaseModel, given: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return the JSON to store for a payload that was read as `value`: with defaults, if it is read as `value` again.

    Else it is stored as it was given: computed fields, serializers and aliases make a dump no input. So is one that its
    defaults alone take beyond the bounds, which are of what a caller sends.
    """
    dumped: dict[str, Json] = value.model_dump(mode="json", by_alias=True)
    if to_json(dumped) == to_json(given):
        return dumped
    try:
        check_bounds(dumped)
    except InvalidArguments:
        check_bounds(
            value.model_dump(mode="json", by_alias=True, exclude_unset=True)
        )  # a model may have made more of it
        return dict(given)
    return dumped if _is_read_as(value, dumped) else dict(given)


def as_json(payload: Any) -> Any:
    """Return a payload as JSON: a model, and values of Python that have a JSON form, become that.

    Raises InvalidArguments for a model that loses something as JSON. Anything else is left to `check_bounds`.
    """
    return _of_model(payload) if isinstance(payload, BaseModel) else _written(payload, MAX_JSON_LEVELS)


def check_bounds(payload: object) -> None:
    """Raise InvalidArguments unless it is a JSON object that every database keeps."""
    if not isinstance(payload, Mapping):
        raise InvalidArguments(
            [InvalidArgument("payload", f"{kind_of(payload)} is not an object", accepted="an object", example=_EXAMPLE)]
        )
    try:
        check_json("payload", payload)
    except InvalidArgument as problem:
        raise InvalidArguments([problem]) from None


def _of_model(value: BaseModel) -> Any:
    for by_alias in (True, False):
        dumped = value.model_dump(mode="json", by_alias=by_alias, round_trip=True)
        if _is_read_as(value, dumped):
            return dumped
    problem, accepted = "its model is not read from its own dump", "the JSON object that the model reads"
    raise InvalidArguments([InvalidArgument("payload", problem, accepted=accepted, example=_EXAMPLE)])


def _is_read_as(value: BaseModel, dumped: Mapping[str, Json]) -> bool:
    try:
        return bool(read(type(value), dumped) == value)
    except Exception:  # noqa: BLE001 - validators may raise anything for a value that no caller has sent
        return False


def _written(value: Any, levels: int) -> Any:
    if type(value) in _JSON_SCALARS:
        return value
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


MAX_QUOTED_VALUE_CHARS: Final = 40
_QUOTED: Final = re.compile(r"'([^']*)'")
_BOUND_KEYS: Final = {"greater_than_equal": "ge", "greater_than": "gt", "less_than_equal": "le", "less_than": "lt"}
_BOUND_STEP: Final = {"greater_than_equal": 0, "greater_than": 1, "less_than_equal": 0, "less_than": -1}
"""Errors of a number out of range, with what is added to their bound to be within it."""

_WORDS_FOR_TEXT: Final = frozenset({"text", "body", "content", "subject", "note", "description", "title", "reminder"})
"""Names that stand for the one text of a payload, where it has no other field."""

_BODY: Final = "body"
_WORDS_FOR: Final = {
    "every": {"interval", "frequency", "period", "poll", "poll_interval", "check_every", "check_interval", "repeat"},
    "until": {"timeout", "deadline", "end", "end_time", "expires", "stop_at", "give_up_after"},
}
"""By field: what other schedulers call it."""

_WORDS_FOR_BODY: Final = frozenset({"json", "data", "payload", "form", "content"})
"""Names that HTTP clients have for what is sent."""


def payload_problems(
    error: ValidationError, model: type[BaseModel], payload: Mapping[str, Any] | None = None
) -> list[InvalidArgument]:
    """Return one `InvalidArgument` for each error, with its path (`payload.size.width`), without long values.

    No example renames a field to one that the `payload` has already.
    """
    found = sorted(error.errors(include_url=False), key=_is_known)  # each example has what those before it correct
    taken = {name for name, value in (payload or {}).items() if value not in (None, "")}
    return [_complaint(item, model, taken) for item in found]


def _is_known(item: Any) -> bool:
    return bool(item["type"] != "extra_forbidden")


def _names(model: type[BaseModel]) -> list[str]:
    """Return the names by which a model reads its fields."""
    return [_name(name, field) for name, field in model.model_fields.items()]


def _name(name: str, field: FieldInfo) -> str:
    alias = field.validation_alias
    choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
    return next((choice for choice in choices if isinstance(choice, str)), name)


def _complaint(item: Any, model: type[BaseModel], taken: set[str]) -> InvalidArgument:
    """Return what one error says; a field that its example renames another to is `taken` from then on."""
    place, loc = _place(item["loc"]), item["loc"]
    if item["type"] == "extra_forbidden":
        own = model if len(loc) == 1 else None
        example = _renamed(str(loc[-1]), item["input"], own, taken)
        return InvalidArgument(place, "unknown field", accepted=_fields(str(loc[-1]), own), example=example)
    accepted, example = _field_help(model, loc)
    example = example if item["type"] == "missing" else _within(item) or _as_text(item) or example or _usual(model, loc)
    problem = "it is required" if item["type"] == "missing" else _problem(item)
    return InvalidArgument(place, problem, accepted=accepted, example=example)


def _place(loc: Sequence[str | int]) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{clean_text(part, 40, lines=False)}" for part in loc)
    return "payload" + "".join(parts)


def _problem(item: Any) -> str:
    message = re.sub(r"^(Value error, |Assertion failed, |Input )", "", item["msg"]).rstrip(".")
    if item["type"] in {"value_error", "assertion_error"}:
        return clean_text(message, 300, lines=False)
    return clean_text(f"{message}, got {_shown(item['input'])}", 300, lines=False)


def _shown(value: object) -> str:
    """Return a scalar of up to `SHORT` characters, else the name of its kind, because long values hide the message."""
    text = repr(value)
    return text if isinstance(value, str | int | float) and len(text) <= MAX_QUOTED_VALUE_CHARS else kind_of(value)


def _renamed(given: str, value: object, model: type[BaseModel] | None, taken: set[str]) -> str:
    """Return an unknown field under the name that was meant, or left out; empty where no example can name it."""
    if not given.isidentifier():
        return ""
    names = _names(model) if model else []
    near = nearest_name(given, names)
    meant = [near] if near else []
    meant = meant or (names if len(names) == 1 and given.lower() in _WORDS_FOR_TEXT else [])
    meant = meant or [name for name in names if given.lower() in _WORDS_FOR.get(name, ())]
    is_body = not meant and given.lower() in _WORDS_FOR_BODY and _BODY in names
    meant = [_BODY] if is_body else meant
    if not meant or meant[0] in taken or not (isinstance(value, str) or is_body or _takes(model, meant[0], value)):
        return f"{given}=null"
    taken.add(meant[0])
    return f"{meant[0]}={value!r}, {given}=null"


def _takes(model: type[BaseModel] | None, name: str, value: object) -> bool:
    """Whether a field takes a number, or true or false, as it is."""
    fields = {_name(each, field): field for each, field in model.model_fields.items()} if model else {}
    if name not in fields or not isinstance(value, int | float):
        return False
    try:
        TypeAdapter(fields[name].rebuild_annotation()).validate_python(value)
    except ValidationError:
        return False
    return True


def _fields(given: str, model: type[BaseModel] | None) -> str:
    if model is None:
        return "only the fields of the schema"
    names = _names(model)
    nearest = nearest_name(given, names)
    hint = f" (did you mean {nearest}?)" if nearest else ""
    return (", ".join(names) or "no fields") + hint


def _field_help(model: type[BaseModel], loc: Sequence[str | int]) -> tuple[str, str]:
    """Return the description of a field and its first example, as its model declares them."""
    field = model.model_fields.get(str(loc[0])) if len(loc) == 1 else None
    if field is None:
        return "", ""
    return (field.description or "").rstrip("."), str(field.examples[0]) if field.examples else ""


def _within(item: Any) -> str:
    """Return the nearest value that a bounded field takes, or the nearest of its words; empty for any other error."""
    context, kind = item.get("ctx") or {}, item["type"]
    if kind in {"literal_error", "enum"}:
        words = _QUOTED.findall(str(context.get("expected", "")))
        return repr(nearest_name(str(item["input"]), words) or words[0]) if words else ""
    for name, step in _BOUND_STEP.items():
        if kind.startswith(name) and isinstance(bound := context.get(_BOUND_KEYS[name]), int):
            return str(bound + step)
    return ""


def _as_text(item: Any) -> str:
    """Return a number where a text is wanted as that text; empty for any other error."""
    value = item["input"]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return repr(str(value)) if is_number and item["type"] == "string_type" else ""


def _usual(model: type[BaseModel], loc: Sequence[str | int]) -> str:
    """Return how an optional field is left out, which then has its default; empty for any other."""
    field = model.model_fields.get(str(loc[0])) if len(loc) == 1 else None
    return f"{loc[0]}=null" if field is not None and not field.is_required() else ""
