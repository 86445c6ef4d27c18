"""The timeout of a wait for an event as a length of time, where a caller says it as a time: `friday evening`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.intake.instants import resolve_end
from duetime.scheduler.rules.time.times import parse_duration

_TIMEOUT = "timeout"
_ARGUMENT = f"wait_for.{_TIMEOUT}"


def with_length(wait_for: Any, now: datetime, zone: str | None) -> Any:
    """Return a wait with a timeout that names a time to come as the length from `now` on; any other as it is."""
    given = wait_for.get(_TIMEOUT) if isinstance(wait_for, Mapping) else None
    if not isinstance(given, str):
        return wait_for
    with suppress(InvalidArgument):
        parse_duration(given, argument=_ARGUMENT)
        return wait_for
    with suppress(InvalidArgument):
        return {**wait_for, _TIMEOUT: resolve_end(given, now=now, zone=zone, argument=_ARGUMENT).instant - now}
    return wait_for
