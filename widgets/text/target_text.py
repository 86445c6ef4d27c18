"""Says what a webhook or a watch sends requests to, and what of a payload that does not say."""

from __future__ import annotations

from typing import Any

from duetime.scheduler.outbound.target import ALL_OF_IT
from duetime.widgets.quote import QuoteLimits, quoted
from duetime.widgets.schema.run_parts import TargetPart
from duetime.widgets.schema.task import TaskPayload

_OF_WATCH = frozenset({"condition", "changed", "every", "until", "check"})
"""Members of the payload of a watch that the sentence about it has."""


def target_in_words(target: TargetPart | None, room: QuoteLimits) -> str:
    """Say what a webhook or a watch sends requests to, how often and until when a watch looks."""
    if target is None:
        return ""
    address = quoted(target.address, room.text)
    if not target.every:
        return f"Sends a request to {address}."
    return f"Looks at {address} every {target.every}{_looks_until(target, room)}, and ends {target.ends}."


def _looks_until(target: TargetPart, room: QuoteLimits) -> str:
    if target.condition:
        return f" until {quoted(target.condition, room.text)} holds"
    if target.changed is None:
        return ""
    return f" until {'it' if target.changed == ALL_OF_IT else quoted(target.changed, room.text)} changes"


def rest_of_payload(task: TaskPayload) -> Any:
    """Return the payload as far as the sentence about a watch does not say it: an address with a query stays."""
    target, payload = task.target, task.payload
    if target is None or not target.every or not isinstance(payload, dict):
        return payload
    left_out = _OF_WATCH | {name for name, value in payload.items() if value in (target.address, "GET") or not value}
    return {name: value for name, value in payload.items() if name not in left_out}


def watched_parts(task: TaskPayload) -> tuple[str, ...]:
    """Return what an answer with the payload of a watch quotes of it in another sentence, and may cut there."""
    target = task.target
    return tuple(filter(None, (target.address, target.condition, target.changed))) if target and task.payload else ()
