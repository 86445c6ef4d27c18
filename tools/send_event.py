"""The tool `send_event`: something has happened for which tasks may wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from duetime.scheduler.task import Json
from duetime.tools.arguments.arguments import Argument
from duetime.tools.arguments.types import Object, Text
from duetime.tools.definition import Definition, Sender, hints
from duetime.tools.results import sent_answer
from mcp.types import CallToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class SendEvent:
    """An event with its data; one with the id of an earlier one is the same."""

    name: str
    data: Mapping[str, Json] = field(default_factory=dict)
    event_id: str | None = None


def _answer(call: SendEvent, sender: Sender) -> CallToolResult:
    return sent_answer(sender.scheduler.signals.send(call.name, call.data, event_id=call.event_id, by=sender.by))


SEND_EVENT = Definition(
    "send_event",
    "Send an event",
    "Report an event; tasks whose wait_for matches it start.",
    (
        Argument("name", Text(100), "", "name='order.paid'", required=True),
        Argument("data", Object(), "For match and the action", "data={'order': {'id': 7}}"),
        Argument("event_id", Text(200), "A repeat has no effect", "event_id='pay-7'"),
    ),
    SendEvent,
    _answer,
    hints(idempotent=False, outside=False),
    card=None,
    output="event",
)
