"""A signal that is sent: stored once, and in the same transaction everything goes on that waited for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from duetime.scheduler.chain.judgement import came_in_words
from duetime.scheduler.signal.match import matches
from duetime.scheduler.signal.signal import MAX_SIGNALS_KEPT, SIGNAL_KEPT, ReceivedSignal, SentSignal
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.schema.tables.signals import signal_waits, signals
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.store.schema.types import Instant
from duetime.scheduler.store.sql.locks import lock_tasks
from duetime.scheduler.store.statements import dependants
from duetime.scheduler.store.statements.endings.follow_ups import FREED_INFO
from duetime.scheduler.store.statements.signals import kept_waits, name_locks, run_waits
from duetime.scheduler.store.statements.signals.kept_waits import OPEN_WAIT
from duetime.scheduler.task import State
from sqlalchemy import BindParameter, Connection, bindparam, delete, select, true, tuple_, update

_IDS: BindParameter[str] = bindparam("waiter_ids", expanding=True)
_SENT = select(signals.c.name, signals.c.id, signals.c.data, signals.c.at, signals.c.freed, signals.c.matched).where(
    signals.c.tenant == bindparam("of_tenant"), signals.c.id == bindparam("of_id")
)
_WAITING = (
    select(signal_waits.c.waiter_id, signal_waits.c.task_id, signal_waits.c.wanted)
    .where(signal_waits.c.tenant == bindparam("of_tenant"), signal_waits.c.name == bindparam("of_name"), OPEN_WAIT)
    .order_by(signal_waits.c.waiter_id)
)
_STILL_OPEN = select(signal_waits.c.waiter_id, signal_waits.c.task_id).where(
    signal_waits.c.waiter_id.in_(_IDS), OPEN_WAIT
)
_WAITING_STILL = select(runs.c.id, runs.c.task_id).where(
    runs.c.task_id.in_(bindparam("task_ids", expanding=True)), runs.c.current == true(), runs.c.state == State.WAITING
)
_COUNTED = (
    update(signals)
    .where(signals.c.tenant == bindparam("of_tenant"), signals.c.id == bindparam("of_id"))
    .values(freed=bindparam("so_many"), matched=bindparam("as_many"))
)
_TOO_MANY = (
    select(signals.c.tenant, signals.c.id)
    .where(signals.c.tenant == bindparam("of_tenant"))
    .order_by(signals.c.at.desc())
    .offset(MAX_SIGNALS_KEPT)
    .limit(2)  # one comes with each signal
)
_OLD = (
    select(signals.c.tenant, signals.c.id)
    .where(signals.c.at < bindparam("before", type_=Instant()))
    .order_by(signals.c.at)
    .limit(bindparam("most"))
)
_DELETE = delete(signals).where(tuple_(signals.c.tenant, signals.c.id).in_(bindparam("keys", expanding=True)))


class _Waiter(NamedTuple):
    waiter_id: str
    task_id: str


def send(
    connection: Connection, tenant: str, signal: ReceivedSignal, *, actor: str, clock: Callable[[], datetime]
) -> SentSignal:
    """Store a signal and let go what waited for it; one whose id is known does nothing."""
    name_locks.lock(connection, tenant, signal.name)
    now = clock()  # behind the lock, so that no wait that is visible began later
    if not stored(connection, tenant, signal, actor, now):
        return _repeated(connection, tenant, signal)
    signal = ReceivedSignal(signal.name, signal.id, signal.data, now)
    closed = _closed(connection, tenant, signal)
    freed, matched = _go_on(connection, closed, signal, now)
    connection.execute(_COUNTED, {"of_tenant": tenant, "of_id": signal.id, "so_many": freed, "as_many": matched})
    forget_surplus(connection, tenant)
    return SentSignal(signal, freed, matched)


def forget_surplus(connection: Connection, tenant: str) -> None:
    """Delete the oldest signals of a tenant that has more than are kept."""
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


def _closed(connection: Connection, tenant: str, signal: ReceivedSignal) -> list[_Waiter]:
    """Close the waits for the signal behind the locks of their tasks; return them."""
    rows = unreadable.rows(connection, _WAITING, {"of_tenant": tenant, "of_name": signal.name})
    meant = [_Waiter(row.waiter_id, row.task_id) for row in rows if matches(row.wanted, signal.data)]
    if not meant:
        return []
    lock_tasks(connection, [each.task_id for each in meant])
    found = connection.execute(_STILL_OPEN, {"waiter_ids": [each.waiter_id for each in meant]})
    still = {first: _Waiter(first, row.task_id) for row in found if (first := kept_waits.first_id(row.waiter_id))}
    kept_waits.close(connection, still, signal)
    return list(still.values())


def _go_on(connection: Connection, closed: Sequence[_Waiter], signal: ReceivedSignal, now: datetime) -> tuple[int, int]:
    """Let tasks go and wake runs; return how many that were, and how many tasks wait on for something else."""
    waiters = {each.waiter_id for each in closed}
    noted = connection.info.get(FREED_INFO, [])
    before = len(noted)
    ends = dependants.settle_waiting(connection, [each.task_id for each in closed], now)
    dependants.follow(connection, ends, now)
    reason = came_in_words(signal)
    noted.extend(run_waits.wake(connection, {e.waiter_id: reason for e in closed if e.waiter_id != e.task_id}, now))
    wanted = {"task_ids": [each.task_id for each in closed]}
    waiting = connection.execute(_WAITING_STILL, wanted).all() if closed else []
    return len(noted) - before, sum(not waiters.isdisjoint((row.id, row.task_id)) for row in waiting)
