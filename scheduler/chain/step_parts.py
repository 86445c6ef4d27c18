"""The parts of a step of a chain: what is accepted of each, and what one of another kind can mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from typing import Any, Final

from duetime.scheduler.request import RETRY_BOUNDS
from duetime.scheduler.task import RetryPolicy


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping)


def _are_texts(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and all(map(is_text, value))


def _are_amounts(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(units, int) and not isinstance(units, bool) for units in value.values()
    )


def _is_moment(value: Any) -> bool:
    return isinstance(value, str | date | timedelta)


def _is_length(value: Any) -> bool:
    return isinstance(value, str | int | float | timedelta) and not isinstance(value, bool)


def _is_retry(value: Any) -> bool:
    """Whether this is a policy, or its members as tools take them, within their bounds."""
    if not isinstance(value, Mapping):
        return isinstance(value, RetryPolicy)
    return _are_amounts(value) and all(
        name in RETRY_BOUNDS and RETRY_BOUNDS[name][0] <= number <= RETRY_BOUNDS[name][1]
        for name, number in value.items()
    )


_RETRY: Final = ", ".join(f"{name} {least} to {greatest}" for name, (least, greatest) in RETRY_BOUNDS.items())
_TEXT, TEXTS, _MOMENT = ("text", is_text), ("a list of texts", _are_texts), ("a time", _is_moment)
STEP_PARTS: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "name": _TEXT,
    "action": _TEXT,
    "payload": ("an object", _is_object),
    "after": TEXTS,
    "after_failure": _TEXT,
    "valid_output": ("a JSON Schema", _is_object),
    "needs": ("an object of whole numbers by name", _are_amounts),
    "estimate": ("a duration in words, or seconds", _is_length),
    "title": _TEXT,
    "when": _MOMENT,
    "timezone": _TEXT,
    "retry": (_RETRY, _is_retry),
    "priority": _TEXT,
    "deadline": _MOMENT,
    "deadline_type": _TEXT,
    "notify": _TEXT,
    "expect": ("an object", _is_object),
    "on_failure": ("an object", _is_object),
    "labels": TEXTS,
    "deliver_to": TEXTS,
    "approval": ("an object, a question or true", lambda value: isinstance(value, Mapping | str | bool)),
    "wait_for": ("an object with event, match, timeout", _is_object),
}
"""The parts of a step, each with what is accepted; `StepArguments` has their types."""


def of_its_kind(name: str, value: Any) -> str:
    """Return a value of another kind as that of a part: what one text can mean, else none."""
    if not isinstance(value, str) or name not in {"payload", "after", "labels", "deliver_to"}:
        return "null"
    if name == "payload":
        return repr({"message": value})
    return repr([part.strip(" '\"[]") for part in value.split(",")])
