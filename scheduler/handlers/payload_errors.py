"""Translates pydantic's errors about a payload into our own sentences."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.rules.sanitize import clean_text, kind_of
from pydantic import AliasChoices, BaseModel, ValidationError
from pydantic.fields import FieldInfo

MAX_QUOTED_VALUE_CHARS: Final = 40
_QUOTED: Final = re.compile(r"'([^']*)'")
_BOUND_KEYS: Final = {"greater_than_equal": "ge", "greater_than": "gt", "less_than_equal": "le", "less_than": "lt"}
_BOUNDS: Final = {"greater_than_equal": 0, "greater_than": 1, "less_than_equal": 0, "less_than": -1}
"""Errors of a number out of range, with what is added to their bound to be within it."""

_WORDS_FOR_TEXT: Final = frozenset({"text", "body", "content", "subject", "note", "description", "title", "reminder"})
"""Names that stand for the one text of a payload, where it has no other field."""


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
    example = example if item["type"] == "missing" else _within(item) or example or _usual(model, loc)
    problem = "is required" if item["type"] == "missing" else _problem(item)
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
    meant = difflib.get_close_matches(given, names, n=1)
    meant = meant or (names if len(names) == 1 and given.lower() in _WORDS_FOR_TEXT else [])
    if not meant or meant[0] in taken or not isinstance(value, str):
        return f"{given}=null"
    taken.add(meant[0])
    return f"{meant[0]}={value!r}, {given}=null"


def _fields(given: str, model: type[BaseModel] | None) -> str:
    if model is None:
        return "only the fields of the schema"
    names = _names(model)
    nearest = difflib.get_close_matches(given, names, n=1)
    hint = f" (did you mean {nearest[0]}?)" if nearest else ""
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
        near = difflib.get_close_matches(str(item["input"])[:MAX_QUOTED_VALUE_CHARS], words, n=1)
        return repr((near or words)[0]) if words else ""
    for name, step in _BOUNDS.items():
        if kind.startswith(name) and isinstance(bound := context.get(_BOUND_KEYS[name]), int):
            return str(bound + step)
    return ""


def _usual(model: type[BaseModel], loc: Sequence[str | int]) -> str:
    """Return how an optional field is left out, which then has its default; empty for any other."""
    field = model.model_fields.get(str(loc[0])) if len(loc) == 1 else None
    return f"{loc[0]}=null" if field is not None and not field.is_required() else ""
