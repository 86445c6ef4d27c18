"""Idempotency keys of calls that close dead letters: each letter that such a call closes is stored under its number.

They are rows of the keys, so they end with their tasks, or after a month. The number is part of the name of the row. Of
two calls at the same moment with one key, one is refused where both would close a letter under one number.
"""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256

from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.history.dead_letters import ClosedLetter, ClosingConflict, ClosingKey, EarlierClosing
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.schema.tables.dead_letters import dead_letters
from duetime.scheduler.store.schema.tables.events import keys
from duetime.scheduler.store.sql.unindexed_column import unindexed
from duetime.scheduler.store.statements.idempotency import KEY_KEPT_AFTER_END
from sqlalchemy import Connection, delete, select

_LETTER = (dead_letters.c.run_id, dead_letters.c.task_id, dead_letters.c.replayed_as, dead_letters.c.closed_at)


def closed(connection: Connection, tenant: str, key: ClosingKey, most: int, now: datetime) -> EarlierClosing:
    """Return up to `most` letters that were closed with this key. Raises `ClosingConflict` for another call's."""
    names = [_name(key, number) for number in range(most)]
    of_key = (keys.c.tenant == tenant, keys.c.key.in_(names), keys.c.expires_at > now)
    found = [row.fingerprint for row in unreadable.rows(connection, select(keys.c.fingerprint).where(*of_key))]
    if any(each["asked"] != key.arguments_digest for each in found):
        raise ClosingConflict(key.text)
    of_runs = (
        unindexed(dead_letters.c.tenant) == tenant,
        dead_letters.c.run_id.in_([each["run_id"] for each in found]),
    )
    statement = select(*_LETTER).where(*of_runs).order_by(dead_letters.c.closed_at, dead_letters.c.run_id)
    rows = unreadable.rows(connection, statement) if found else []
    letters = tuple(ClosedLetter(row.run_id, row.task_id, row.replayed_as) for row in rows)
    return EarlierClosing(letters, rows[0].closed_at if rows else None)


def store(connection: Connection, tenant: str, key: ClosingKey | None, of: tuple[str, str], now: datetime) -> None:
    """Store that a letter, `of` a task and a run, was closed with this key; without one, nothing."""
    if key is None:
        return
    task_id, run_id = of
    name = _name(key, key.number)
    connection.execute(delete(keys).where(keys.c.tenant == tenant, keys.c.key == name, keys.c.expires_at <= now))
    end = now + KEY_KEPT_AFTER_END
    values = {
        "tenant": tenant,
        "key": name,
        "task_id": task_id,
        "fingerprint": {"run_id": run_id, "asked": key.arguments_digest},
        "expires_at": end,
        "derived": False,
        "look_at": end,
    }
    store_one = dialect_of(connection).insert(keys).on_conflict_do_nothing().returning(keys.c.key)
    if connection.execute(store_one, values).first() is None:
        text = "Another call used the same idempotency_key at this moment. This letter stays open; try again."
        raise StoreUnavailable(text)


def _name(key: ClosingKey, number: int) -> str:
    """Return the name of the row: a digest, so that no caller's key of a task is the same."""
    return f"closed:{sha256(key.text.encode()).hexdigest()}:{number}"
