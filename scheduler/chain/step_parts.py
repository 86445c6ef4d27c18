"""The parts of a step of a chain: what is accepted of each, and what one of another kind can mean."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date, timedelta
from typing import Any, Final

from duetime.scheduler.remedies import MIN_MEMBER_SIMILARITY_RATIO, nearest_name
from duetime.scheduler.request import RETRY_ACCEPTED, RETRY_BOUNDS
from duetime.scheduler.task import RetryPolicy

_LENGTHS: Final = frozenset({"delay", "countdown", "wait"})
_IN_UNITS: Final = re.compile(r"(?:delay|countdown|wait|in)_(seconds|minutes|hours|days)")
"""A name of a delay that says its unit: `delay_seconds`."""

_ATTEMPTS: Final = re.compile(r"(\d{1,3})(?: (times|retries|attempts|tries))?(?:[,.;].*)?")

_UNITS_OF_POOL: Final = re.compile(
    r"(?P<named>(?!key:[^=\s]*$)[^\s=]+?)\s*[=:\s]\s*(?P<after>\d{1,9})|(?P<before>\d{1,9})(?: ?x)? (?P<counted>\S+)"
)
_POOL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/-]{0,99}")
_POOL_NAMES: Final = ("pool", "name", "resource")
"""Members that name the pool of an object with its units next to it."""

_MAX_NUMBER_CHARS: Final = 20


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _are_texts(value: Any) -> bool:
    return _is_list(value) and all(map(is_text, value))


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


_RETRIES: Final = frozenset({"retry", "retries", "max_retries", "maxretries"})
"""Names of the attempts after the first one."""

_MEANT_MEMBERS: Final = {
    **{name: name for name in RETRY_BOUNDS},
    **dict.fromkeys(("attempts", "tries", "count", "times", "limit", "maxattempts", *_RETRIES), "max_attempts"),
    **dict.fromkeys(("backoff", "delay", "interval", "pause", "wait", "delay_seconds"), "backoff_seconds"),
    "initial_backoff": "backoff_seconds",
    **dict.fromkeys(("max_backoff", "max_delay", "max_interval", "cap"), "max_backoff_seconds"),
}
"""Names that other tools have for a member of a retry policy."""


def meant_member(name: Any) -> tuple[str, int] | None:
    """Return the member of a retry policy that a name most likely means, and what is added to its number."""
    plain = str(name)[:40].strip().lower().replace("-", "_")
    known = nearest_name(plain, _MEANT_MEMBERS, min_ratio=MIN_MEMBER_SIMILARITY_RATIO)
    return (_MEANT_MEMBERS[known], int(known in _RETRIES)) if known else None


def meant_retry(members: Mapping[Any, Any]) -> dict[str, int] | None:
    """Return the numbers of a retry policy under the names that were meant, None where none is within its bounds."""
    found = dict[str, int]()
    for name, value in members.items():
        meant = meant_member(name)
        if meant is None or isinstance(value, bool) or not str(value).isdecimal():
            continue
        number = int(str(value)[:10]) + meant[1]
        least, most = RETRY_BOUNDS[meant[0]]
        found |= {meant[0]: number} if least <= number <= most else {}
    if found.get("backoff_seconds", 0) > found.get("max_backoff_seconds", math.inf):
        del found["max_backoff_seconds"]
    return found or None


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
    "retry": (RETRY_ACCEPTED, _is_retry),
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


def meant_value(name: str, value: Any) -> str:
    """Return a value of another kind as that of a part: what it can mean there, else none."""
    meant = _MEANT_VALUES[name](value) if name in _MEANT_VALUES else None
    return "null" if meant is None or not STEP_PARTS[name][1](meant) else repr(meant)


def _as_texts(value: Any) -> list[str] | None:
    return [part.strip(" '\"[]") for part in value.split(",")] if is_text(value) else None


def _as_member(name: str) -> Callable[[Any], dict[str, Any] | None]:
    """Return a reader of one text as the member of an object."""
    return lambda value: {name: value} if is_text(value) else None


def _as_attempts(value: Any) -> dict[str, int] | None:
    """Return how many attempts a number or words mean: `3 times` come after the first one, `3 attempts` count it.

    Text that is not understood asks for some; an object has its numbers by name.
    """
    if isinstance(value, Mapping):
        return meant_retry(value)
    found = _ATTEMPTS.fullmatch(str(value).strip().lower())
    if found is None:
        return {"max_attempts": 3} if is_text(value) else None
    attempts = int(found[1]) + (found[2] in {"times", "retries"})
    return {"max_attempts": min(attempts, RETRY_BOUNDS["max_attempts"][1])}


def meant_amounts(value: Any) -> dict[str, int] | None:
    """Return the units by pool that a value means: `gpu` is one unit, `gpu=2` and `2 gpu` are two."""
    if is_text(value) and "," not in value:
        return _of_one_pool(value)
    if _is_object(value) and (named := next((value[name] for name in _POOL_NAMES if is_text(value.get(name))), None)):
        return _of_one_pool(f"{named}={_units(next(filter(_is_number, value.values()), 1))}")
    parts = value.split(",") if is_text(value) else value.items() if isinstance(value, Mapping) else value
    if not isinstance(parts, Iterable):
        return None
    found = dict[str, int]()
    for part in parts:
        if is_text(part) or _is_object(part):
            found |= meant_amounts(part) or {}
        elif isinstance(part, tuple):
            found[str(part[0])] = _units(part[1])
    return found or None


def _of_one_pool(text: str) -> dict[str, int] | None:
    units = _UNITS_OF_POOL.fullmatch(text.strip())
    name = (units["named"] or units["counted"]) if units else text.strip()
    return {name: _units(units["after"] or units["before"] if units else 1)} if _POOL.fullmatch(name) else None


def _units(value: Any) -> int:
    """Return whole units, at least one; one for what is no number."""
    try:
        return max(1, math.ceil(float(str(value)[:_MAX_NUMBER_CHARS])))
    except (ValueError, OverflowError):
        return 1


def meant_labels(value: Any) -> list[str] | None:
    """Return the texts that an object of labels by name means, or a list of such objects; None for other values."""
    if _is_object(value):
        parts = (
            (name, each) for name, several in value.items() for each in (several if _is_list(several) else [several])
        )
        return [f"{name}" if each in (None, True, "") else f"{name}={each}" for name, each in parts]
    if not _is_list(value):
        return _as_texts(value)
    return [label for part in value for label in (meant_labels(part) if _is_object(part) else [str(part)]) or ()]


_MEANT_VALUES: Final[Mapping[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(("after", "deliver_to"), _as_texts),
    "labels": meant_labels,
    "payload": _as_member("message"),
    "wait_for": _as_member("event"),
    "expect": _as_member("field"),
    "retry": _as_attempts,
    "needs": meant_amounts,
}


def listed_texts(value: Any) -> Any:
    """Return one text, or the JSON text of a list, as a list; what could be several texts stays as it is."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        with suppress(ValueError, RecursionError):
            return json.loads(value)
    return value if "," in value or "[" in value else [value]


_MEANT_PARTS: Final = {
    **dict.fromkeys(("depends_on", "dependson", "depends", "upstream", "upstreams", "requires", "waits_for"), "after"),
    **dict.fromkeys(("id", "step"), "name"),
    **dict.fromkeys(("input", "args", "arguments", "params", "parameters"), "payload"),
    **dict.fromkeys(("handler", "tool"), "action"),
    **dict.fromkeys(("delay", "countdown", "wait", "at", "run_at", "start", "start_at", "start_time", "eta"), "when"),
    **dict.fromkeys(("tz", "zone", "time_zone"), "timezone"),
    **dict.fromkeys(("retries", "max_retries", "retry_count", "attempts", "max_attempts", "retry_policy"), "retry"),
    **dict.fromkeys(("duration", "takes"), "estimate"),
    **dict.fromkeys(("tags", "tag", "label"), "labels"),
    **dict.fromkeys(("urgency", "importance", "tier", "prio"), "priority"),
    **dict.fromkeys(("due_by", "finish_by", "complete_by", "by"), "deadline"),
    **dict.fromkeys(("channel", "channels"), "deliver_to"),
}
"""Names that workflow engines have for a part of a step."""


def meant_part(name: str, value: Any = None) -> str | None:
    """Return the part of a step that was most likely meant by another name."""
    plain = name[:40].lower().replace("-", "_")
    if plain == "wait" and _is_object(value):
        return "wait_for"
    near = nearest_name(plain, STEP_PARTS, min_ratio=MIN_MEMBER_SIMILARITY_RATIO)
    return _MEANT_PARTS.get(plain) or ("when" if _IN_UNITS.fullmatch(plain) else near)


def renamed_part(name: str, meant: str | None, step: Mapping[str, Any]) -> str:
    """Return a misnamed part of a step under the name that was meant; left out where its value does not fit there.

    Steps that it comes after join those that it names already. Empty where no example can name it.
    """
    if not name.isidentifier():
        return ""
    left_out = f"{name}=null"
    value: Any = None if meant is None else _as_part(name.lower(), meant, step[name])
    if meant is None or not STEP_PARTS[meant][1](value):
        return left_out
    if meant == "after":
        value = list(dict.fromkeys([*(listed_texts(step.get("after")) or ()), *value]))
    elif meant in step:
        return left_out
    return f"{meant}={value!r}, {left_out}"


def _as_part(name: str, meant: str, value: Any) -> Any:
    """Return the value of a misnamed part as that of the part that was meant: `delay` is a time from now."""
    if meant == "after":
        return listed_texts(value)
    if meant == "retry" and not _is_object(value):
        counted = "attempts" if name.endswith("attempts") else "times"
        return _as_attempts(f"{value} {counted}" if str(value).isdecimal() else value)
    unit = _IN_UNITS.fullmatch(name)
    if meant == "when" and (unit or name in _LENGTHS) and re.match(r"\d", str(value)):
        counted = unit[1] if unit else "seconds"
        is_number = not is_text(value) or value.strip().isdecimal()
        if is_number and counted == "seconds" and float(value) < 1:
            return "now"
        return f"in {value} {counted}" if is_number else f"in {value}"
    reads = _MEANT_VALUES.get(meant)
    return reads(value) if reads and not STEP_PARTS[meant][1](value) else value
