"""Idempotency keys of changes: a repeated change of a task is made once.

A key from the caller holds as long as that of a new task. A derived key holds until it expires, or until the same actor
changes the task in another way: pause, resume and pause within a minute is no repeat.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.records import IdempotencyKey
from duetime.scheduler.store.schema.tables import events
from duetime.scheduler.store.schema.tables import keys as key_table
from duetime.scheduler.store.statements import idempotency
from duetime.scheduler.task import Task
from sqlalchemy import Connection, Row, bindparam, select
from sqlalchemy.dialects import postgresql, sqlite

_LATER_CHANGE = (
    select(events.c.id)
    .where(
        events.c.task_id == bindparam("of_task"),
        events.c.revision > bindparam("revision"),
        events.c.actor == bindparam("by_actor"),
    )
    .limit(1)
)
_STORE: Mapping[str, Any] = {
    "postgresql": postgresql.insert(key_table).on_conflict_do_nothing().returning(key_table.c.key),
    "sqlite": sqlite.insert(key_table).on_conflict_do_nothing().returning(key_table.c.key),
}


def is_repeat(connection: Connection, task: Task, key: IdempotencyKey, actor: str, now: datetime) -> bool:
    """Whether the change that the key names was made already; an expired key is removed.

    Raises `IdempotencyConflict` when a key that holds was used for another change.
    """
    row = idempotency.find(connection, task.tenant, key.key)
    if row is None:
        return False
    if not idempotency.row_holds(row, now) or _is_over(connection, row, actor):
        idempotency.forget(connection, [(row.tenant, row.key, row.task_id)])
        return False
    idempotency.check_same(key, row.task_id, row.fingerprint)
    return True


def _is_over(connection: Connection, row: Row[Any], actor: str) -> bool:
    """Whether the actor changed the task in another way after a derived key was stored."""
    if not row.derived:
        return False
    since = {"of_task": row.task_id, "revision": row.revision, "by_actor": actor}
    return connection.execute(_LATER_CHANGE, since).first() is not None


def store(connection: Connection, task: Task, key: IdempotencyKey) -> None:
    """Store the key of a change of this task; raises a conflict when another call has stored it since."""
    values = idempotency.key_row(task, key, task.updated_at, revision=task.revision)
    if connection.execute(_STORE[connection.dialect.name], values).first() is not None:
        return
    found = idempotency.find(connection, task.tenant, key.key)
    if found is not None:
        idempotency.check_same(key, found.task_id, found.fingerprint)
    raise StoreUnavailable("Another call used the same idempotency_key at this moment. Nothing was stored; try again.")
