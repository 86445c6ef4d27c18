"""A signal that is sent: stored once, and in the same transaction all waits for it end.

The tasks that waited continue a page at a time. A wait that has ended holds nothing any more. So the repair of
dependencies lets those continue whose page was not stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from duetime.scheduler.chain.judgement import arrival_text
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.schema.tables.signals import signal_waits, signals
from duetime.scheduler.store.schema.types import Instant
from duetime.scheduler.store.sql.commit_notes import notes_of
from duetime.scheduler.store.sql.locks import lock_tasks
from duetime.scheduler.store.statements import dependants
from duetime.scheduler.store.statements.signals import ended_waits, name_locks, run_waits, wait_rows
from duetime.scheduler.store.statements.signals.wait_room import OPEN_WAIT
from duetime.scheduler.store.text_index.text_search import among
from duetime.scheduler.waits.match import matches
from duetime.scheduler.waits.signal import MAX_SIGNALS_KEPT, SIGNAL_KEPT, ReceivedSignal, SentSignal
from sqlalchemy import Connection, bindparam, delete, select, tuple_, update

MAX_WAITERS_LET_GO = 250
"""Waiters that one transaction lets go: some 50 ms for which other writers of a SQLite file wait."""

SENDS_PER_CHECK = 64
"""Sends of which one looks for surplus signals, which costs more than the rest of a send."""

MAX_SURPLUS_FORGOTTEN = 4 * SENDS_PER_CHECK
"""Surplus signals that one send deletes."""

_SENT = select(signals.c.name, signals.c.id, signals.c.data, signals.c.at, signals.c.freed, signals.c.matched).where(
    signals.c.tenant == bindparam("of_tenant"), signals.c.id == bindparam("of_id")
)
_WAITING = (
    select(signal_waits.c.waiter_id, signal_waits.c.task_id, signal_waits.c.wanted)
    .where(signal_waits.c.tenant == bindparam("of_tenant"), signal_waits.c.name == bindparam("of_name"), OPEN_WAIT)
    .order_by(signal_waits.c.waiter_id)
)
_STILL_OPEN = select(signal_waits.c.waiter_id, signal_waits.c.task_id).where(OPEN_WAIT)
_COUNTED = (
    update(signals)
    .where(signals.c.tenant == bindparam("of_tenant"), signals.c.id == bindparam("of_id"))
    .values(freed=signals.c.freed + bindparam("so_many"), matched=signals.c.matched + bindparam("as_many"))
)
_TOO_MANY = (
    select(signals.c.tenant, signals.c.id)
    .where(signals.c.tenant == bindparam("of_tenant"))
    .order_by(signals.c.at.desc())
    .offset(MAX_SIGNALS_KEPT)
    .limit(MAX_SURPLUS_FORGOTTEN)
)
_OLD = (
    select(signals.c.tenant, signals.c.id)
    .where(signals.c.at < bindparam("before", type_=Instant()))
    .order_by(signals.c.at)
    .limit(bindparam("most"))
)
_DELETE = delete(signals).where(tuple_(signals.c.tenant, signals.c.id).in_(bindparam("keys", expanding=True)))


class ClosedWait(NamedTuple):
    """A wait that a signal ended: of a task, or of a run of it that has begun."""

    waiter_id: str
    task_id: str


def send(
    connection: Connection, tenant: str, signal: ReceivedSignal, *, actor: str, clock: Callable[[], datetime]
) -> tuple[SentSignal, Sequence[ClosedWait]]:
    """Store a signal, end all waits for it, and let the first page of waiters go; return the others.

    One whose id is known does nothing.
    """
    name_locks.lock(connection, tenant, signal.name)
    now = clock()  # behind the lock, so that no wait that is visible began later
    if not stored(connection, tenant, signal, actor, now):
        return _repeated(connection, tenant, signal), ()
    signal = ReceivedSignal(signal.name, signal.id, signal.data, now)
    closed = _closed(connection, tenant, signal)
    _wake(connection, closed, signal, now)
    done = let_go(connection, tenant, closed[:MAX_WAITERS_LET_GO], SentSignal(signal, 0, 0), now)
    forget_surplus(connection, tenant, now)
    return done, closed[MAX_WAITERS_LET_GO:]


def forget_surplus(connection: Connection, tenant: str, now: datetime) -> None:
    """Delete the oldest signals of a tenant that has more than are kept, at some of the times of a send."""
    if now.microsecond % SENDS_PER_CHECK == 0:
        _forget(connection, connection.execute(_TOO_MANY, {"of_tenant": tenant}).all())


def forget_old(connection: Connection, limit: int, now: datetime) -> int:
    """Delete signals to which no wait can look back; return how many."""
    return _forget(connection, connection.execute(_OLD, {"before": now - SIGNAL_KEPT, "most": limit}).all())


def _forget(connection: Connection, keys: Sequence[Any]) -> int:
    if keys:
        connection.execute(_DELETE, {"keys": [tuple(key) for key in keys]})
    return len(keys)


def stored(connection: Connection, tenant: str, signal: ReceivedSignal, actor: str, now: datetime) -> bool:
    """Store a signal; False where its id is known."""
    row = {
        "tenant": tenant,
        "id": signal.id,
        "name": signal.name,
        "data": dict(signal.data),
        "at": now,
        "actor": actor,
        "freed": 0,
        "matched": 0,
    }
    made = dialect_of(connection).insert(signals).values(row).on_conflict_do_nothing().returning(signals.c.id)
    return connection.execute(made).first() is not None


def _repeated(connection: Connection, tenant: str, signal: ReceivedSignal) -> SentSignal:
    found = connection.execute(_SENT, {"of_tenant": tenant, "of_id": signal.id}).one()
    return SentSignal(
        ReceivedSignal(found.name, found.id, found.data, found.at), found.freed, found.matched, repeated=True
    )


def _closed(connection: Connection, tenant: str, signal: ReceivedSignal) -> list[ClosedWait]:
    """Close the waits for the signal behind the locks of their tasks; return them."""
    rows = unreadable.rows(connection, _WAITING, {"of_tenant": tenant, "of_name": signal.name})
    meant = [ClosedWait(row.waiter_id, row.task_id) for row in rows if matches(row.wanted, signal.data)]
    lock_tasks(connection, {each.task_id for each in meant})
    still_open = _STILL_OPEN.where(among(connection, signal_waits.c.waiter_id, [each.waiter_id for each in meant]))
    found = connection.execute(still_open).all()
    still = {first: ClosedWait(first, row.task_id) for row in found if (first := wait_rows.first_id(row.waiter_id))}
    ended_waits.close(connection, still, signal)
    return list(still.values())


def _wake(connection: Connection, closed: Sequence[ClosedWait], signal: ReceivedSignal, now: datetime) -> None:
    """Let suspended runs continue: all of them at once, as nothing looks for one whose wait is over."""
    noted, reason = notes_of(connection).freed, arrival_text(signal)
    run_ids = [each.waiter_id for each in closed if each.waiter_id != each.task_id]
    noted.extend(run_waits.wake(connection, dict.fromkeys(run_ids, reason), now))


def let_go(
    connection: Connection, tenant: str, page: Sequence[ClosedWait], answer: SentSignal, now: datetime
) -> SentSignal:
    """Let the tasks of waiters go whose waits have ended; return the answer with these, and those that wait on."""
    noted, task_ids = notes_of(connection).freed, [each.task_id for each in page]
    dependants.let_waiting_go(connection, task_ids, now)
    reasons = {each.waiter_id: arrival_text(answer.signal) for each in page}
    freed, matched = len(noted), ended_waits.log(connection, reasons, task_ids, now)
    of_signal = {"of_tenant": tenant, "of_id": answer.signal.id}
    connection.execute(_COUNTED, {**of_signal, "so_many": freed, "as_many": matched})
    return replace(answer, freed=answer.freed + freed, matched=answer.matched + matched)
