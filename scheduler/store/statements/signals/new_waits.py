"""New waits for signals: stored with what waits, closed where a signal that they look back to has come.

Of a wait that is stored and a signal that is sent at the same moment, one sees the other. Both take the lock of the
name first, the signal for itself alone. So a signal meets all waits that were stored before it, whatever clocks say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.tables.signals import signal_waits, signals
from duetime.scheduler.store.schema.types import Instant
from duetime.scheduler.store.sql.batch import Batch
from duetime.scheduler.store.statements.signals import wait_room
from duetime.scheduler.store.statements.signals.wait_rows import WAITER_IDS, NewWait, further, names, row_of
from duetime.scheduler.waits.match import matches
from duetime.scheduler.waits.signal import ReceivedSignal, SignalWait
from sqlalchemy import Connection, bindparam, delete, insert, select

MAX_SIGNALS_COMPARED = 1_000
"""Signals of a name, newest first, that a new wait is compared with."""

_ADD = Batch(insert(signal_waits), [column.name for column in signal_waits.c])
_FORGET = delete(signal_waits).where(signal_waits.c.waiter_id.in_(WAITER_IDS))
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


def note(connection: Connection, tenant: str, task_id: str, run_id: str, signal: ReceivedSignal) -> None:
    """Note the signal by which a run has come that waited for none: its handler reads it like another one."""
    at = signal.at
    assert at is not None
    connection.execute(_FORGET, {"waiter_ids": [run_id]})
    _ADD.run(connection, [row_of(NewWait(tenant, task_id, run_id, SignalWait(signal.name, {}, at, at)), signal, at)])


def _rows(connection: Connection, each: NewWait, now: datetime) -> Iterator[dict[str, Any]]:
    """Yield the row of a wait, and those of its others, which it closes with itself."""
    came = first_of(connection, each)
    yield row_of(each, came, now) | ({"name": came.name} if came else {})
    for waiter, other in zip(further([each.waiter_id]), each.wait.others, strict=False):
        row = row_of(each._replace(waiter_id=waiter, wait=other), None, now)
        yield row | ({"closed_at": now} if came else {})


def first_of(connection: Connection, each: NewWait) -> ReceivedSignal | None:
    """Return the newest signal that has come to which the wait, or one of its others, looks back."""
    found = [_came(connection, each._replace(wait=one)) for one in each.wait.all]
    return max((came for came in found if came and came.at), key=lambda came: came.at or each.wait.since, default=None)


def _came(connection: Connection, each: NewWait) -> ReceivedSignal | None:
    given = {"of_tenant": each.tenant, "of_name": each.wait.name, "earliest": each.wait.since}
    found = unreadable.rows(connection, _CAME, given)
    return next((ReceivedSignal(*row) for row in found if matches(each.wait.match, row.data)), None)
