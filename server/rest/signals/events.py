"""Events: something has happened for which tasks may wait."""

from __future__ import annotations

from typing import Final

from duetime.server.rest.operation import Operation, RestAnswer, RestCall
from duetime.tools.send_event import SEND_EVENT
from duetime.widgets.sent_event import SentEventPayload, sent_event_payload


def send_event(call: RestCall) -> RestAnswer:
    """Send an event to the tasks of the caller's tenant."""
    known = call.values.get("event_id") or call.idempotency_key
    sent = call.scheduler.signals.send(call.values["name"], call.values.get("data"), event_id=known, by=call.by)
    return RestAnswer(sent_event_payload(sent))


OF_EVENTS_SENT: Final = (
    Operation(
        "send_event",
        "POST",
        "/events",
        "Send an event: tasks that wait for it go on; a second one with the same id does nothing",
        send_event,
        SentEventPayload,
        body=SEND_EVENT.arguments,
        repeatable=True,
    ),
)
