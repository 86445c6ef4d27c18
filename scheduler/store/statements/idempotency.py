"""Idempotency keys: a repeated request makes one task, and a repeated change is made once.

A lookup decides whether a key still holds: by its own `expires_at`, or by how its task ended. A derived key holds until
the same actor changes the task in another way. Pause, resume and pause within a minute is no repeat. That of a template
holds while its task is open, and a minute longer for a repeat of the call; a cancel ends it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from types import SimpleNamespace
from typing import Any

from duetime.scheduler.errors import IdempotencyConflict, StoreUnavailable
from duetime.scheduler.records import IdempotencyKey, NewTask
from duetime.scheduler.remedies import Remedy, UseNewKeyForChange
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.schema.damage import DamagedValue
from duetime.scheduler.store.schema.rows import IS_CURRENT
from duetime.scheduler.store.schema.tables.events import events, keys
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.store.schema.values import encode
from duetime.scheduler.store.sql.positional import PositionalStatement
from duetime.scheduler.task import Json, Run, State, Task
from sqlalchemy import Connection, Row, Select, bindparam, delete, select, update
from sqlalchemy.dialects import sqlite

KEY_KEPT_AFTER_END = timedelta(days=30)
NATURAL_KEY_KEPT_AFTER_END = timedelta(seconds=60)
_MAX_CHARS_KEPT = 200
_MAX_CHARS_SHOWN = 60

_WITH_RUN = keys.join(runs, (runs.c.task_id == keys.c.task_id) & IS_CURRENT)
_LOOK_UP = (
    select(keys, runs.c.state, runs.c.ended_at)
    .select_from(_WITH_RUN)
    .where(keys.c.tenant == bindparam("tenant"), keys.c.key.in_(bindparam("keys", expanding=True)))
)
_FORGET = delete(keys).where(
    keys.c.tenant == bindparam("of_tenant"), keys.c.key == bindparam("of_key"), keys.c.task_id == bindparam("of_task")
)
_TO_LOOK_AT: Select[Any] = (
    select(keys.c.tenant, keys.c.key, keys.c.task_id, keys.c.expires_at, runs.c.state, runs.c.ended_at)
    .select_from(_WITH_RUN)
    .where(keys.c.look_at <= bindparam("now", type_=keys.c.look_at.type))
    .order_by(keys.c.look_at)
    .limit(bindparam("most"))
)
_LOOK_LATER = (
    update(keys)
    .where(keys.c.tenant == bindparam("of_tenant"), keys.c.key == bindparam("of_key"))
    .values(look_at=bindparam("at"))
)
_CLEANUP_LOCK_ID = 0x6B657973  # "keys"
_CLAIM = PositionalStatement.of(
    sqlite.insert(keys).on_conflict_do_nothing(), sqlite.dialect(), [column.name for column in keys.c]
)

_LATER_CHANGE = (
    select(events.c.id)
    .where(
        events.c.task_id == bindparam("of_task"),
        events.c.revision > bindparam("revision"),
        events.c.actor == bindparam("by_actor"),
    )
    .limit(1)
)

_first = events.alias("first")
_MAKER = select(_first.c.actor).where(_first.c.task_id == bindparam("of_task"), _first.c.seq == 1).scalar_subquery()
_CHANGED_BY_MAKER = (
    select(events.c.id)
    .where(events.c.task_id == bindparam("of_task"), events.c.revision > 1, events.c.actor == _MAKER)
    .limit(1)
)

Name = tuple[str, str]
"""Tenant and key."""

Owned = tuple[str, str, str]
"""Tenant, key and task: a key that names another task by now is another entry."""


def name_of(item: NewTask) -> Name:
    assert item.key is not None
    return item.task.tenant, item.key.key


def claim(connection: Connection, items: Sequence[NewTask], now: datetime) -> dict[Name, str]:
    """SQLite: store the keys of new items; return the task that each (tenant, key) still names which was stored before.

    An expired key is taken over. Raises `IdempotencyConflict` when a key that holds was used for other content.
    """
    wanted = {name_of(item): item for item in items if item.key}
    if not wanted or _CLAIM.run(connection, _rows(wanted.values())) == len(wanted):
        return {}  # nearly every call has new keys
    found: dict[Name, str] = {}
    for tenant in {of for of, _ in wanted}:
        for row in _looked_up(connection, tenant, [key for of, key in wanted if of == tenant]):
            item = wanted[tenant, row.key]
            if item.key and row_holds(connection, row, now):
                check_same(item.key, row.task_id, row.fingerprint)
                found[tenant, row.key] = row.task_id
            else:
                forget(connection, [(tenant, row.key, row.task_id)])
                _CLAIM.run(connection, _rows([item]))
    return found


def find(connection: Connection, tenant: str, key: str) -> Any | None:
    """Return the row of a key with state and end of its task's current run, expired or not; None without one."""
    return next(iter(_looked_up(connection, tenant, [key])), None)


def tasks_of(connection: Connection, tenant: str, names: Sequence[str]) -> dict[str, str]:
    """Return the task of each of the keys that is stored, expired or not."""
    return {row.key: row.task_id for row in _looked_up(connection, tenant, names)}


def _looked_up(connection: Connection, tenant: str, names: Sequence[str]) -> Sequence[Any]:
    """Read keys; a damaged one still names its call, whatever content that had."""
    rows, damaged = unreadable.every(connection, _LOOK_UP, {"tenant": tenant, "keys": list(names)})
    return [SimpleNamespace(**_neutral(row)) for row in rows] if damaged else rows


def _neutral(row: Row[Any]) -> dict[str, Any]:
    found = {name: None if isinstance(value, DamagedValue) else value for name, value in row._mapping.items()}  # noqa: SLF001 - public, in spite of its name
    return {str(name): value for name, value in found.items()}


def stands_for(connection: Connection, tenant: str, key: IdempotencyKey, now: datetime) -> str | None:
    """Return the task that a key still names; raises `IdempotencyConflict` for other content."""
    row = find(connection, tenant, key.key)
    if row is None or not row_holds(connection, row, now):
        return None
    check_same(key, row.task_id, row.fingerprint)
    return str(row.task_id)


def holds(run: Run | Row[Any], *, derived: bool, expires_at: datetime | None, now: datetime) -> bool:
    """Whether a key still names its task, whose current run this is."""
    if derived and run.state is State.CANCELLED:
        return False
    kept = NATURAL_KEY_KEPT_AFTER_END if derived else KEY_KEPT_AFTER_END
    until = expires_at or (run.ended_at and run.ended_at + kept)
    return until is None or until > now


def row_holds(connection: Connection, row: Row[Any], now: datetime) -> bool:
    """Whether a key still names its call; only a key that made a task ends with a cancel or another change of it."""
    made_task = row.revision is None
    if not holds(row, derived=row.derived and made_task, expires_at=row.expires_at, now=now):
        return False
    return not (made_task and row.derived and row.expires_at and is_changed_by_maker(connection, row.task_id))


def is_changed_by_maker(connection: Connection, task_id: str) -> bool:
    """Whether the caller that made a task has changed it since."""
    return connection.execute(_CHANGED_BY_MAKER, {"of_task": task_id}).first() is not None


def check_same(
    key: IdempotencyKey, task_id: str, first: Mapping[str, Json] | None, *, remedy: Remedy | None = None
) -> None:
    """Raise `IdempotencyConflict` when the content differs from that of the first call; None is unknown content."""
    if first is None:
        return
    now = reduced(key.fingerprint)
    names = [*now, *sorted(first.keys() - now.keys())]  # PostgreSQL keeps members in an order of its own
    differing = [name for name in names if first.get(name) != now.get(name)]
    if differing:
        differences = {name: (_shown(first.get(name)), _shown(now.get(name))) for name in differing}
        raise IdempotencyConflict(key.key, task_id, differences, remedy=remedy)


def _shown(value: Json) -> str:
    if value is None:
        return "not given"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= _MAX_CHARS_SHOWN else f"{text[:_MAX_CHARS_SHOWN]}..."


def reduced(fingerprint: Mapping[str, Json]) -> dict[str, Json]:
    """Return the fingerprint with each long value replaced by its beginning and a digest; None means absent."""
    given: dict[str, Json] = {name: value for name, value in fingerprint.items() if value is not None}
    if len(encode(given)) <= _MAX_CHARS_KEPT:
        return given  # so no value is longer
    return {name: _reduced_value(value) for name, value in given.items()}


def _reduced_value(value: Json) -> Json:
    text = encode(value)
    if len(text) <= _MAX_CHARS_KEPT:
        return value
    return f"{text[:_MAX_CHARS_SHOWN]}... sha256:{sha256(text.encode()).hexdigest()}"


def _rows(items: Iterable[NewTask]) -> list[dict[str, Any]]:
    return [key_row(item.task, item.key, item.task.created_at) for item in items if item.key]


def key_row(task: Task, key: IdempotencyKey, now: datetime, *, revision: int | None = None) -> dict[str, Any]:
    return {
        "tenant": task.tenant,
        "key": key.key,
        "task_id": task.id,
        "fingerprint": reduced(key.fingerprint),
        "expires_at": key.expires_at,
        "derived": key.derived,
        "revision": revision,
        "look_at": key.expires_at or now + KEY_KEPT_AFTER_END,
    }


def forget_outdated(connection: Connection, now: datetime, limit: int) -> int:
    """Examine at most `limit` keys that may have expired, remove the expired ones, and return how many were examined.

    On a server one process at a time does this; any other finds nothing to do.
    """
    if not dialect_of(connection).has_lock(connection, _CLEANUP_LOCK_ID):
        return 0
    found = unreadable.rows(connection, _TO_LOOK_AT, {"now": now, "most": limit})
    outdated = [row for row in found if not holds(row, derived=False, expires_at=row.expires_at, now=now)]
    if outdated:
        forget(connection, [(row.tenant, row.key, row.task_id) for row in outdated])
    kept = [row for row in found if row not in outdated]
    if kept:
        connection.execute(_LOOK_LATER, [_later(row, now) for row in kept])
    return len(found)


def held(connection: Connection, task_ids: Sequence[str], now: datetime) -> set[str]:
    """Return those of these ended tasks that have a key which `forget_outdated` would keep."""
    lasting = keys.c.expires_at.is_(None) & (runs.c.ended_at > now - KEY_KEPT_AFTER_END)
    found = select(keys.c.task_id).select_from(_WITH_RUN).where(keys.c.task_id.in_(task_ids))
    return set(connection.execute(found.where((keys.c.expires_at > now) | lasting)).scalars())


def _later(row: Row[Any], now: datetime) -> dict[str, Any]:
    """Return the earliest expiry of a key that holds: for an open task in a month at the earliest."""
    at = row.expires_at or (row.ended_at or now) + KEY_KEPT_AFTER_END
    return {"of_tenant": row.tenant, "of_key": row.key, "at": at}


def forget(connection: Connection, names: Sequence[Owned]) -> None:
    connection.execute(
        _FORGET, [{"of_tenant": tenant, "of_key": key, "of_task": task_id} for tenant, key, task_id in names]
    )


def is_repeat(connection: Connection, task: Task, key: IdempotencyKey, actor: str, now: datetime) -> bool:
    """Whether the change that the key names was made already; an expired key is removed.

    Raises `IdempotencyConflict` when a key that holds was used for another change.
    """
    row = find(connection, task.tenant, key.key)
    if row is None:
        return False
    if not row_holds(connection, row, now) or _is_over(connection, row, actor):
        forget(connection, [(row.tenant, row.key, row.task_id)])
        return False
    check_same(key, row.task_id, row.fingerprint, remedy=UseNewKeyForChange())
    return True


def _is_over(connection: Connection, row: Row[Any], actor: str) -> bool:
    """Whether the actor changed the task in another way after a derived key was stored."""
    if not row.derived:
        return False
    since = {"of_task": row.task_id, "revision": row.revision, "by_actor": actor}
    return connection.execute(_LATER_CHANGE, since).first() is not None


def store_change(connection: Connection, task: Task, key: IdempotencyKey) -> None:
    """Store the key of a change of this task; raises a conflict when another call has stored it since."""
    values = key_row(task, key, task.updated_at, revision=task.revision)
    store_one = dialect_of(connection).insert(keys).on_conflict_do_nothing().returning(keys.c.key)
    if connection.execute(store_one, values).first() is not None:
        return
    found = find(connection, task.tenant, key.key)
    if found is not None:
        check_same(key, found.task_id, found.fingerprint, remedy=UseNewKeyForChange())
    raise StoreUnavailable("Another call used the same idempotency_key at this moment. Nothing was stored; try again.")
