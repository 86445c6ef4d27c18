"""The inbox as JSON."""

from __future__ import annotations

from collections.abc import Iterable

from duetime.scheduler.rules.time.times import utc
from duetime.scheduler.task import InboxMessage, Json
from duetime.scheduler.views import NOTHING_HELD, HeldDeliveries
from duetime.widgets.formats.rows import present


def inbox_json(
    found: Iterable[InboxMessage], unread: int, *, quiet: int = 0, held: HeldDeliveries = NOTHING_HELD
) -> dict[str, Json]:
    """Return outcomes, and how many are unread; of `quiet` ones nobody was notified, and quiet hours hold others."""
    counts: dict[str, Json] = {
        "unread_count": unread,
        "quiet_count": quiet or None,
        "held_count": held.count or None,
        "held_until": utc(held.until) if held.until else None,
    }
    return present({"schema": "duetime.inbox/1", "messages": [*map(_message, found)], **counts})


def done_json(done: int, unread: int) -> dict[str, Json]:
    """Return how many outcomes were marked as read, and how many are left."""
    return {"schema": "duetime.inbox/1", "done": done, "unread_count": unread}


def _message(message: InboxMessage) -> dict[str, Json]:
    known: dict[str, Json] = {
        "id": message.id,
        "task_id": message.task_id,
        "title": message.title,
        "text": message.text,
        "state": message.state.value,
        "at": utc(message.created_at),
        "held_until": utc(message.held_until) if message.held_until else None,
    }
    return present(known)
