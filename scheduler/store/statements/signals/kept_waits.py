"""Waits for signals: stored with what waits, read for decisions, closed by a signal or at their end.

Of a wait that is stored and a signal that is sent at the same moment, one sees the other. Both take the lock of the
name first, the signal for itself alone. So a signal meets all waits that were stored before it, whatever clocks say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.tables.signals import signal_waits, signals
from duetime.scheduler.store.schema.tables.tasks import tasks
from duetime.scheduler.store.schema.types import Instant
from duetime.scheduler.store.sql.batch import Batch
from duetime.scheduler.store.sql.chunks import chunks
from duetime.scheduler.store.statements.signals import name_locks, wait_room
from duetime.scheduler.store.statements.signals.wait_room import OPEN_WAIT
from duetime.scheduler.waits.match import matches
from duetime.scheduler.waits.signal import MAX_EVENTS_AWAITED, KeptWait, ReceivedSignal, SignalWait
from sqlalchemy import (
    BindParameter,
    Connection,
    Select,
    bindparam,
    delete,
    false,
    insert,
    select,
    true,
    update,
)

MAX_SIGNALS_COMPARED = 1_000
"""Signals of a name, newest first, that a new wait is compared with."""

WAITS_OF_TASKS = signal_waits.join(tasks, tasks.c.id == signal_waits.c.task_id)
NEXT_LATE: Select[Any] = (
    select(signal_waits.c.until)
    .select_from(WAITS_OF_TASKS)
    .where(OPEN_WAIT, tasks.c.paused == false())
    .order_by(signal_waits.c.until)
    .limit(1)
)
"""When the next wait is too late."""

_ADD = Batch(insert(signal_waits), [column.name for column in signal_waits.c])
_WAITERS: BindParameter[str] = bindparam("waiter_ids", expanding=True)
_FORGET = delete(signal_waits).where(signal_waits.c.waiter_id.in_(_WAITERS))
_CLOSE_FURTHER = (
    update(signal_waits).where(signal_waits.c.waiter_id.in_(_WAITERS), OPEN_WAIT).values(closed_at=bindparam("at"))
)
_FURTHER = "+"
"""Stands in the id of a row between that of the waiter and the place among the events of which any ends its wait."""
_COLUMNS = select(
    signal_waits.c.waiter_id,
    *(signal_waits.c[name] for name in ("name", "wanted", "since", "until", "on_timeout", "at_once")),
    *(signal_waits.c[name] for name in ("closed_at", "signal_id", "data", "signal_at")),
)
_KEPT = _COLUMNS.where(signal_waits.c.waiter_id.in_(_WAITERS))
_OPEN_OF = _KEPT.where(signal_waits.c.tenant == bindparam("tenant"), OPEN_WAIT)
_OF_TENANT = _COLUMNS.where(
    signal_waits.c.tenant == bindparam("tenant"),
    signal_waits.c.task_id == bindparam("of_task"),
    signal_waits.c.waiter_id == bindparam("waiter"),
)
_CAME = (
    select(signals.c.name, signals.c.id, signals.c.data, signals.c.at)
    .where(
        signals.c.tenant == bindparam("of_tenant"),
        signals.c.name == bindparam("of_name"),
        signals.c.at >= bindparam("earliest", type_=Instant()),
    )
    .order_by(signals.c.at.desc())
    .limit(MAX_SIGNALS_COMPARED)
)
_REOPEN = (
    update(signal_waits)
    .where(signal_waits.c.waiter_id.in_(_WAITERS), signal_waits.c.signal_id.is_(None))
    .values(closed_at=None)
)
_MOVE = (
    update(signal_waits)
    .where(signal_waits.c.waiter_id.in_(_WAITERS), OPEN_WAIT, signal_waits.c.at_once == true())
    .values(until=bindparam("at"))
)


class NewWait(NamedTuple):
    """A wait to be stored for a task or for a run of it."""

    tenant: str
    task_id: str
    waiter_id: str
    wait: SignalWait


def add(connection: Connection, waits: Sequence[NewWait], now: datetime) -> None:
    """Store waits, closed where a signal has come that they look back to. Their names are locked.

    Raises Refused where too many wait for a name.
    """
    for tenant, name in names(waits):
        wait_room.check(connection, tenant, name)
    store(connection, waits, now)


def store(connection: Connection, waits: Sequence[NewWait], now: datetime) -> None:
    """Store waits like `add`, without a limit, in place of what the same run has waited for before."""
    begun = [each.waiter_id for each in waits if each.waiter_id != each.task_id]
    if begun:
        connection.execute(_FORGET, {"waiter_ids": begun})
    _ADD.run(connection, [row for each in waits for row in _rows(connection, each, now)])


def names(waits: Iterable[NewWait]) -> list[tuple[str, str]]:
    return sorted({(each.tenant, one.name) for each in waits for one in each.wait.all})


def _rows(connection: Connection, each: NewWait, now: datetime) -> Iterator[dict[str, Any]]:
    """Yield the row of a wait, and those of its others, which it closes with itself."""
    came = _first_of(connection, each)
    yield row_of(each, came, now) | ({"name": came.name} if came else {})
    for waiter, other in zip(further([each.waiter_id]), each.wait.others, strict=False):
        row = row_of(each._replace(waiter_id=waiter, wait=other), None, now)
        yield row | ({"closed_at": now} if came else {})


def further(waiter_ids: Iterable[str]) -> list[str]:
    """Return the ids under which the others of waits are stored."""
    return [f"{waiter}{_FURTHER}{place}" for waiter in waiter_ids for place in range(1, MAX_EVENTS_AWAITED)]


def first_id(waiter_id: str) -> str:
    """Return the id of the wait of which the one with this id is a further one, or itself."""
    return waiter_id.partition(_FURTHER)[0]


def close(connection: Connection, waiter_ids: Iterable[str], signal: ReceivedSignal, name: str | None = None) -> None:
    """End waits by a signal, under its name or another one, and all else that they wait for."""
    ended, named = list(waiter_ids), {"as_name": name or signal.name}
    _CLOSE_BY_SIGNAL.run(connection, [closing(each, signal, signal.at) | named for each in ended])
    for some in chunks(ended):
        connection.execute(_CLOSE_FURTHER, {"waiter_ids": further(some), "at": signal.at})


def _with_others(connection: Connection, found: dict[str, KeptWait]) -> dict[str, KeptWait]:
    if not found:
        return found
    rows = unreadable.rows(connection, _KEPT, {"waiter_ids": further(found)})
    others: dict[str, list[SignalWait]] = {}
    for row in sorted(rows, key=lambda row: str(row.waiter_id)):
        others.setdefault(first_id(row.waiter_id), []).append(_kept_wait(row).wait)
    return {
        name: replace(each, wait=replace(each.wait, others=tuple(others.get(name, ())))) for name, each in found.items()
    }


def note(connection: Connection, tenant: str, task_id: str, run_id: str, signal: ReceivedSignal) -> None:
    """Note the signal by which a run has come that waited for none: its handler reads it like another one."""
    at = signal.at
    assert at is not None
    connection.execute(_FORGET, {"waiter_ids": [run_id]})
    _ADD.run(connection, [row_of(NewWait(tenant, task_id, run_id, SignalWait(signal.name, {}, at, at)), signal, at)])


def kept(connection: Connection, waiter_ids: Sequence[str]) -> dict[str, KeptWait]:
    """Return the waits of tasks or of runs, by these; those that cannot be read are left out."""
    if not waiter_ids:
        return {}
    rows = unreadable.rows(connection, _KEPT, {"waiter_ids": list(waiter_ids)})
    return _with_others(connection, {row.waiter_id: _kept_wait(row) for row in rows})


def of_waiter(connection: Connection, waiter_id: str) -> KeptWait | None:
    return kept(connection, [waiter_id]).get(waiter_id)


def open_of(connection: Connection, tenant: str, waiter_ids: Sequence[str]) -> dict[str, KeptWait]:
    """Return the open waits of those tasks and runs that the tenant has."""
    values = {"tenant": tenant, "waiter_ids": list(waiter_ids)}
    rows = unreadable.rows(connection, _OPEN_OF, values)
    return _with_others(connection, {row.waiter_id: _kept_wait(row) for row in rows})


def of_tenant(connection: Connection, tenant: str, task_id: str, waiter_id: str) -> KeptWait | None:
    """Return the wait of a task, or of a run of it, if the tenant has that task."""
    rows = unreadable.rows(connection, _OF_TENANT, {"tenant": tenant, "of_task": task_id, "waiter": waiter_id})
    return _kept_wait(rows[0]) if rows else None


def reopen(connection: Connection, tenant: str, task_id: str) -> bool:
    """Let a task wait again for the signal that it has not had; a signal that came since ends the wait."""
    found = of_waiter(connection, task_id)
    if found is None or found.signal is not None:
        return False
    again = NewWait(tenant, task_id, task_id, found.wait)
    name_locks.share_late(connection, names([again]))
    connection.execute(_REOPEN, {"waiter_ids": [task_id, *further([task_id])]})
    came = _first_of(connection, again)
    if came is not None:
        close(connection, [task_id], came)
    return True


def move(connection: Connection, task_id: str, until: datetime) -> None:
    """Note the new time of a task that a signal would start before it."""
    connection.execute(_MOVE, {"waiter_ids": [task_id, *further([task_id])], "at": until})


_CLOSE = (
    update(signal_waits)
    .where(signal_waits.c.waiter_id == bindparam("waiter"), OPEN_WAIT)
    .values(
        closed_at=bindparam("closed"),
        signal_id=bindparam("by_signal"),
        signal_at=bindparam("sent"),
        data=bindparam("gave"),
    )
)
CLOSE_WAITS, _CLOSE_BY_SIGNAL = Batch(_CLOSE), Batch(_CLOSE.values(name=bindparam("as_name")))


def closing(waiter_id: str, signal: ReceivedSignal | None, now: datetime | None) -> dict[str, Any]:
    """Return the row by which `CLOSE_WAITS` ends a wait, by a signal or because it is too late for one."""
    return {
        "waiter": waiter_id,
        "closed": now,
        "by_signal": signal.id if signal else None,
        "sent": signal.at if signal else None,
        "gave": dict(signal.data) if signal else None,
    }


def _first_of(connection: Connection, each: NewWait) -> ReceivedSignal | None:
    """Return the newest signal that has come to which the wait, or one of its others, looks back."""
    found = [_came(connection, each._replace(wait=one)) for one in each.wait.all]
    return max((came for came in found if came and came.at), key=lambda came: came.at or each.wait.since, default=None)


def _came(connection: Connection, each: NewWait) -> ReceivedSignal | None:
    given = {"of_tenant": each.tenant, "of_name": each.wait.name, "earliest": each.wait.since}
    found = unreadable.rows(connection, _CAME, given)
    return next((ReceivedSignal(*row) for row in found if matches(each.wait.match, row.data)), None)


def row_of(each: NewWait, came: ReceivedSignal | None, now: datetime) -> dict[str, Any]:
    wait = each.wait
    return {
        "waiter_id": each.waiter_id,
        "task_id": each.task_id,
        "tenant": each.tenant,
        "name": wait.name,
        "wanted": dict(wait.match),
        "since": wait.since,
        "until": wait.until,
        "on_timeout": wait.on_timeout,
        "at_once": wait.at_once,
        "closed_at": now if came else None,
        "signal_id": came.id if came else None,
        "signal_at": came.at if came else None,
        "data": dict(came.data) if came else None,
    }


def _kept_wait(row: Any) -> KeptWait:
    wait = SignalWait(row.name, row.wanted, row.since, row.until, row.on_timeout, row.at_once)
    signal = None if row.signal_id is None else ReceivedSignal(row.name, row.signal_id, row.data or {}, row.signal_at)
    return KeptWait(wait, row.closed_at, signal)
