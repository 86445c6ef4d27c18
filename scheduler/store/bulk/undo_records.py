"""Calls that changed many tasks, kept for their undo and for their repeat.

They are rows of the idempotency keys, one for each transaction of a call, so they end with their time. Another row
has the token of the latest of all equal calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from hashlib import sha256

from duetime.scheduler.calls.bulk_change import (
    MAX_TASKS_AT_ONCE,
    MAX_TASKS_CHANGED,
    TAKEN_BACK_ALREADY,
    BatchWrite,
    EqualCallAtOnce,
    StoredBatch,
)
from duetime.scheduler.errors import Refused, StoreUnavailable
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.schema.tables.events import events, keys
from sqlalchemy import Connection, bindparam, delete, func, or_, select, update

_MAX_ROWS = 2 * MAX_TASKS_CHANGED // MAX_TASKS_AT_ONCE
"""Transactions of a call: any two that follow each other have more tasks than would be in one."""

_LATEST = "latest-batch:"
_LAST_EVENT = select(func.max(events.c.id))
_LATER_CHANGE = (
    select(events.c.id)
    .where(
        events.c.task_id.in_(bindparam("task_ids", expanding=True)),
        events.c.id > bindparam("last_event"),
        events.c.actor == bindparam("by_actor"),
    )
    .limit(1)
)


def stored(connection: Connection, tenant: str, token: str, now: datetime) -> list[StoredBatch]:
    """Return the transactions of a call in their order."""
    names = _names(token, range(_MAX_ROWS))
    of_call = (keys.c.tenant == tenant, keys.c.key.in_(names), keys.c.expires_at > now)
    rows = unreadable.rows(connection, select(keys.c.key, keys.c.fingerprint).where(*of_call))
    found = {row.key: StoredBatch.from_json(row.fingerprint) for row in rows}
    return [found[name] for name in names if name in found]


def latest_token(connection: Connection, tenant: str, repeat_name: str, now: datetime) -> str | None:
    """Return the token of the latest call of this name."""
    of_name = (keys.c.tenant == tenant, keys.c.key == f"{_LATEST}{repeat_name}", keys.c.expires_at > now)
    rows = unreadable.rows(connection, select(keys.c.fingerprint).where(*of_name))
    return next((row.fingerprint.get("token") for row in rows), None)


def is_changed_since(connection: Connection, batches: Sequence[StoredBatch], actor: str) -> bool:
    """Whether the actor has changed a task of a call in another way since the last of its transactions."""
    marks = [each.last_event for each in batches if each.last_event is not None]
    if not marks:
        return False
    task_ids = [task_id for each in batches for task_id in each.became]
    since = {"task_ids": task_ids, "last_event": max(marks), "by_actor": actor}
    return connection.execute(_LATER_CHANGE, since).first() is not None


def check_undoable(connection: Connection, tenant: str, batch: StoredBatch, number: int) -> None:
    """Raise Refused where another undo has taken this transaction of a call back since it was read."""
    of_batch = (keys.c.tenant == tenant, keys.c.key == _name(batch.token, number))
    rows = unreadable.rows(connection, select(keys.c.fingerprint).where(*of_batch).with_for_update())
    if not any(StoredBatch.from_json(row.fingerprint).is_undoable for row in rows):
        raise Refused(TAKEN_BACK_ALREADY, argument="undo")


def store(connection: Connection, tenant: str, batch: StoredBatch, write: BatchWrite, *, is_made: bool = False) -> None:
    """Store one transaction of a call, where a repeat or an undo is to find it.

    Raises `StoreUnavailable` when another call has stored it at this moment. Raises `EqualCallAtOnce` when an equal
    call was stored since this one was decided, unless the changes of this one are made already.
    """
    if not batch.became or write.keep_until <= batch.at:
        return
    batch = replace(batch, last_event=connection.execute(_LAST_EVENT).scalar())
    name = _name(batch.token, write.number)
    outdated = (keys.c.tenant == tenant, keys.c.key == name, keys.c.expires_at <= batch.at)
    connection.execute(delete(keys).where(*outdated))
    values = {
        "tenant": tenant,
        "key": name,
        "task_id": next(iter(batch.became)),
        "fingerprint": batch.to_json(),
        "expires_at": write.keep_until,
        "derived": False,
        "look_at": write.keep_until,
    }
    insert = dialect_of(connection).insert(keys)
    if connection.execute(insert.on_conflict_do_nothing().returning(keys.c.key), values).first() is None:
        text = "Another call used the same idempotency_key at this moment. Nothing was changed; try again."
        raise StoreUnavailable(text)
    if write.repeat_name is not None and write.number == 0:
        values |= {"key": f"{_LATEST}{write.repeat_name}", "fingerprint": {"token": batch.token}}
        newest = {column: insert.excluded[column] for column in ("task_id", "fingerprint", "expires_at", "look_at")}
        is_seen = or_(keys.c.fingerprint == {"token": write.seen}, keys.c.expires_at <= batch.at)
        where = None if is_made else is_seen
        upsert = insert.on_conflict_do_update(index_elements=["tenant", "key"], set_=newest, where=where)
        if connection.execute(upsert.returning(keys.c.key), values).first() is None:
            raise EqualCallAtOnce


def replace_with(connection: Connection, tenant: str, batch: StoredBatch, number: int) -> None:
    """Keep one transaction of a call with other content."""
    of_batch = (keys.c.tenant == tenant, keys.c.key == _name(batch.token, number))
    connection.execute(update(keys).where(*of_batch).values(fingerprint=batch.to_json()))


def _name(token: str, number: int) -> str:
    return _names(token, [number])[0]


def _names(token: str, numbers: Iterable[int]) -> list[str]:
    """Return the names of rows: digests, so that no caller's key is the same."""
    digest = sha256(token.encode()).hexdigest()
    return [f"batch:{digest}:{number}" for number in numbers]
