"""The filter for events that words ask for, on the command line, over REST and on the admin page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from typing import Any, Final

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.task import State
from duetime.tools.admin.run_rows import SPAN_ARGUMENTS, cost_given, read_span, read_tier

MAX_COUNT_DIGITS: Final = 9

_READ: Final[Mapping[str, Callable[[Any], Any]]] = {
    "state": lambda given: _member("state", State, given),
    "kind": lambda given: _member("kind", EventKind, given),
    "min_cost": cost_given,
    "min_attempts": lambda given: count_given("min_attempts", given),
    **{name: partial(read_span, name) for name in SPAN_ARGUMENTS},
}


def _member(name: str, kinds: type[StrEnum], given: str) -> StrEnum:
    try:
        return kinds(given)
    except ValueError:
        example = f"{name}={next(iter(kinds)).value!r}"
        raise InvalidArgument(name, "it is not known", accepted=", ".join(kinds), example=example) from None


def count_given(name: str, given: str | int) -> int:
    """Return a whole number. Raises InvalidArgument."""
    text = str(given).strip()
    if not (text.isascii() and text.isdecimal() and len(text) <= MAX_COUNT_DIGITS):
        raise InvalidArgument(name, "it is not a number", accepted="a whole number from 1 on", example=f"{name}=2")
    return int(text)


def event_filter(**words: Any) -> EventFilter:
    """Return the filter; None filters by nothing. Lengths of time are words or seconds. Raises InvalidArgument."""
    given = {name: value for name, value in words.items() if value is not None}
    read: dict[str, Any] = {name: _READ[name](given[name]) for name in _READ if name in given}
    tier = read_tier(given.pop("priority", None))
    return EventFilter(**(given | read), tier=tier)
