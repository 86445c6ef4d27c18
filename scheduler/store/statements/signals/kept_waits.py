"""Waits for signals as they are stored, read for decisions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.tables.signals import signal_waits
from duetime.scheduler.store.schema.tables.tasks import tasks
from duetime.scheduler.store.statements.signals.wait_room import OPEN_WAIT
from duetime.scheduler.store.statements.signals.wait_rows import COLUMNS, WAITER_IDS, first_id, further, kept_wait
from duetime.scheduler.waits.signal import KeptWait, SignalWait
from sqlalchemy import Connection, Row, Select, bindparam, false, select, true, update

WAITS_OF_TASKS = signal_waits.join(tasks, tasks.c.id == signal_waits.c.task_id)
NEXT_LATE: Select[Any] = (
    select(signal_waits.c.until)
    .select_from(WAITS_OF_TASKS)
    .where(OPEN_WAIT, tasks.c.paused == false())
    .order_by(signal_waits.c.until)
    .limit(1)
)
"""The time at which the next wait ends without its event."""

_KEPT = COLUMNS.where(signal_waits.c.waiter_id.in_(WAITER_IDS))
_OF_WAITERS = _KEPT.where(signal_waits.c.tenant == bindparam("tenant"))
_OF_TENANT = COLUMNS.where(
    signal_waits.c.tenant == bindparam("tenant"),
    signal_waits.c.task_id == bindparam("of_task"),
    signal_waits.c.waiter_id == bindparam("waiter"),
)
_MOVE = (
    update(signal_waits)
    .where(signal_waits.c.waiter_id.in_(WAITER_IDS), OPEN_WAIT, signal_waits.c.at_once == true())
    .values(until=bindparam("at"))
)


def kept(connection: Connection, waiter_ids: Sequence[str]) -> dict[str, KeptWait]:
    """Return the waits of tasks or of runs, by these; those that cannot be read are left out."""
    if not waiter_ids:
        return {}
    rows = unreadable.rows(connection, _KEPT, {"waiter_ids": [*waiter_ids, *further(waiter_ids)]})
    return _joined(rows, waiter_ids)


def of_waiter(connection: Connection, waiter_id: str) -> KeptWait | None:
    return kept(connection, [waiter_id]).get(waiter_id)


def open_of(connection: Connection, tenant: str, waiter_ids: Sequence[str]) -> dict[str, KeptWait]:
    """Return the open waits of those tasks and runs that the tenant has, by one statement."""
    asked = {"tenant": tenant, "waiter_ids": [*waiter_ids, *further(waiter_ids)]}
    found = _joined(unreadable.rows(connection, _OF_WAITERS, asked), waiter_ids)
    return {waiter: each for waiter, each in found.items() if each.is_open}


def of_tenant(connection: Connection, tenant: str, task_id: str, waiter_id: str) -> KeptWait | None:
    """Return the wait of a task, or of a run of it, if the tenant has that task."""
    rows = unreadable.rows(connection, _OF_TENANT, {"tenant": tenant, "of_task": task_id, "waiter": waiter_id})
    return kept_wait(rows[0]) if rows else None


def _joined(rows: Iterable[Row[Any]], waiter_ids: Sequence[str]) -> dict[str, KeptWait]:
    """Return the waits of these, each with the others of which any ends it too, in their order."""
    found, others, first = dict[str, KeptWait](), dict[str, list[SignalWait]](), set(waiter_ids)
    for row in sorted(rows, key=lambda row: str(row.waiter_id)):
        if row.waiter_id in first:
            found[row.waiter_id] = kept_wait(row)
        else:
            others.setdefault(first_id(row.waiter_id), []).append(kept_wait(row).wait)
    return {
        name: replace(each, wait=replace(each.wait, others=tuple(others.get(name, ())))) for name, each in found.items()
    }


def move(connection: Connection, task_id: str, until: datetime) -> None:
    """Note the new time of a task that a signal would start before it."""
    connection.execute(_MOVE, {"waiter_ids": [task_id, *further([task_id])], "at": until})
