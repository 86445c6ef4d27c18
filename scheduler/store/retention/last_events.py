"""The last events of tasks: every change is an event, so a task that has no newer one is as it was."""

from __future__ import annotations

from collections.abc import Collection

from duetime.scheduler.store.schema.tables.events import events
from sqlalchemy import Connection, func, select


def last_events(connection: Connection, task_ids: Collection[str]) -> dict[str, int]:
    """Return the numbers of the last events of these tasks; a task without any is left out."""
    statement = select(events.c.task_id, func.max(events.c.seq)).where(events.c.task_id.in_(list(task_ids)))
    return {str(task_id): int(seq) for task_id, seq in connection.execute(statement.group_by(events.c.task_id))}
