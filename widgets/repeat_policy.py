"""The behaviour of a recurring task, as payloads have it and as words."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from duetime.scheduler.rules.time import times
from duetime.scheduler.task import RepeatPolicy


def policy_part(policy: RepeatPolicy | None) -> dict[str, Any] | None:
    """Return what a policy says beside the defaults, by the names of the argument."""
    return {name: _plain(part) for name, part in policy.parts().items()} if policy else None


def _plain(part: Any) -> Any:
    if isinstance(part, timedelta):
        return times.length(part)
    return [day.isoformat() for day in part] if isinstance(part, tuple) else part


def policy_in_words(part: Mapping[str, Any] | None) -> str:
    """Say a policy on one line: `overlap buffer_one, pause_after 3`."""
    return ", ".join(f"{name} {_word(value)}" for name, value in (part or {}).items())


def _word(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
