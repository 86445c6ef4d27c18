"""An outcome as programs receive it: the body of a webhook, the input of a command."""

from __future__ import annotations

from duetime.scheduler.records import OutgoingMessage
from duetime.scheduler.task import InboxMessage


def message_json(message: InboxMessage) -> dict[str, object]:
    """Return the event; of an unverified run it says in what the result is not as expected.

    With an origin it has whom the caller was proved to be, since the origin proves nothing.
    """
    outgoing = message if isinstance(message, OutgoingMessage) else None
    origin = dict(outgoing.origin) if outgoing else {}
    conversation = {"origin": origin, "tenant": message.tenant, "user": message.user} if origin else {}
    return {
        "type": f"task.{message.state}",
        "timestamp": message.created_at.isoformat().replace("+00:00", "Z"),
        "data": {
            "message_id": message.id,
            "task_id": message.task_id,
            "run_id": message.run_id,
            "title": message.title,
            "text": message.text,
            "state": str(message.state),
            **({"unverified": outgoing.unverified} if outgoing and outgoing.unverified else {}),
            **conversation,
        },
    }
