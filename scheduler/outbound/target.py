"""The address of a webhook or a watch; how often and until when a watch looks, as asked or as assumed."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import urlsplit

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.rules.redact import redacted
from duetime.scheduler.rules.time.times import describe, length, parse_duration, utc
from duetime.scheduler.task import Run, Task

WATCH: Final = "watch"
WEBHOOK: Final = "webhook"
ADDRESSED_ACTIONS: Final = frozenset({WATCH, WEBHOOK})
"""The actions that send requests to an address of their task."""

DEFAULT_WATCH_INTERVAL: Final = "5 min"
DEFAULT_WATCH_DURATION: Final = "7 days"
"""The pace and the end of a watch whose payload has none, as its handler reads it."""

ALL_OF_IT: Final = "@"
"""The JMESPath of a value itself."""


@dataclass(frozen=True, slots=True)
class Target:
    """The address of a task, or the check of its watch; a watch looks `every` so often, and `ends` then.

    `until` is the instant of that, in UTC, once it is known. It looks until its `condition` holds, or the part of its
    value that is `changed` is another one.
    """

    address: str
    every: str | None = None
    ends: str | None = None
    until: str | None = None
    condition: str | None = None
    changed: str | None = None


def target_of(task: Task, run: Run) -> Target | None:
    """Return where a task of one of `ADDRESSED_ACTIONS` sends its requests; None without an address."""
    address = _address(task)
    if not address:
        return None
    if task.action == WEBHOOK:
        return Target(address)
    every = _length(str(task.payload.get("every") or DEFAULT_WATCH_INTERVAL))
    given = str(task.payload.get("until") or DEFAULT_WATCH_DURATION)
    until = _until(given, run.started_at)
    ends = _end(given, until, task.timezone)
    return Target(address, every, ends, utc(until) if until else None, **_looked_for(task))


def _looked_for(task: Task) -> dict[str, str]:
    """Return what a watch looks for, without credentials."""
    given = {name: task.payload.get(name) for name in ("condition", "changed")}
    given["changed"] = ALL_OF_IT if given["changed"] is True else given["changed"]
    return {name: redacted(value) for name, value in given.items() if isinstance(value, str)}


def _address(task: Task) -> str:
    """Return an address without its query and its password: they may hold secrets."""
    given = task.payload.get("url")
    if not isinstance(given, str):
        return str(task.payload.get("check") or "")
    with suppress(ValueError):
        parts = urlsplit(given)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    return ""


def _length(given: str) -> str:
    span = _span(given)
    return given if span is None else length(span)


def _until(given: str, began: datetime | None) -> datetime | None:
    """Return the end of a watch; None before its first look, where it counts from there, and for what is no time."""
    span = _span(given)
    if span is not None:
        return None if began is None else began + span
    with suppress(ValueError):
        return datetime.fromisoformat(given)
    return None


def _end(given: str, until: datetime | None, zone: str) -> str:
    if until is not None:
        return describe(until, zone)
    span = _span(given)
    return given if span is None else f"after {length(span)}"


def _span(given: str) -> timedelta | None:
    with suppress(InvalidArgument):
        return parse_duration(given, argument="payload")
    return None
