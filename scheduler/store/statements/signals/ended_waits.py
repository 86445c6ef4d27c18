"""Waits that end: by a signal, because it is too late for one, or with the run that waits.

No later event counts for a run that ends, or is to start now, before its event has come. The wait of a task is closed,
and is opened again for a run in the place of that one. That of a run is deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from duetime.scheduler.events import DUETIME_ACTOR, EventKind
from duetime.scheduler.store.schema.tables.signals import signal_waits
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.store.schema.types import Instant
from duetime.scheduler.store.statements import event_log
from duetime.scheduler.store.statements.signals import name_locks, new_waits
from duetime.scheduler.store.statements.signals.kept_waits import of_waiter
from duetime.scheduler.store.statements.signals.own_waits import forget_open
from duetime.scheduler.store.statements.signals.wait_room import OPEN_WAIT
from duetime.scheduler.store.statements.signals.wait_rows import WAITER_IDS, NewWait, further, names
from duetime.scheduler.store.text_index.text_search import among
from duetime.scheduler.task import State
from duetime.scheduler.waits.signal import OnTimeout, ReceivedSignal
from sqlalchemy import Connection, bindparam, false, select, true, update

_WAITS = frozenset({State.WAITING, State.SUSPENDED})
_OF_WAITERS = update(signal_waits).where(signal_waits.c.waiter_id.in_(WAITER_IDS))
_CLOSE_BY_SIGNAL = update(signal_waits).values(
    name=bindparam("as_name"),
    closed_at=bindparam("sent"),
    signal_id=bindparam("by_signal"),
    signal_at=bindparam("sent"),
    data=bindparam("gave"),
)
"""No `Batch`, as its rows would differ by their ids alone: PostgreSQL may compare each of them with each open wait."""

_CLOSE = _OF_WAITERS.where(OPEN_WAIT).values(closed_at=bindparam("at"))
_REOPEN = _OF_WAITERS.where(signal_waits.c.signal_id.is_(None)).values(closed_at=None)
_WAIVE = _OF_WAITERS.where(
    signal_waits.c.signal_id.is_(None),
    signal_waits.c.closed_at.is_not(None),
    signal_waits.c.until <= bindparam("now", type_=Instant()),
).values(on_timeout=OnTimeout.RUN, at_once=false())

_WAITING_STILL = select(runs.c.id, runs.c.task_id, runs.c.tenant).where(
    runs.c.task_id.in_(bindparam("task_ids", expanding=True)), runs.c.current == true(), runs.c.state == State.WAITING
)


def close(connection: Connection, waiter_ids: Iterable[str], signal: ReceivedSignal, name: str | None = None) -> None:
    """End waits by a signal, under its name or another one, and all else that they wait for."""
    values = {"as_name": name or signal.name, "by_signal": signal.id, "sent": signal.at, "gave": dict(signal.data)}
    first = list(waiter_ids)
    by_signal, others = (among(connection, signal_waits.c.waiter_id, ids) for ids in (first, further(first)))
    connection.execute(_CLOSE_BY_SIGNAL.where(by_signal, OPEN_WAIT), values)
    connection.execute(update(signal_waits).where(others, OPEN_WAIT).values(closed_at=signal.at))


def close_late(connection: Connection, waiter_ids: Sequence[str], now: datetime) -> None:
    """End waits, each by the id of its row, for whose events it is too late."""
    if waiter_ids:
        connection.execute(_CLOSE, {"waiter_ids": list(waiter_ids), "at": now})


def end(connection: Connection, ending: Iterable[tuple[str, str, State]], now: datetime) -> None:
    """Close the waits of runs; each run comes with its task and its state before the change."""
    waiting = [each for each in ending if each[2] in _WAITS]
    forget_open(connection, [run_id for run_id, _, _ in waiting])
    task_ids = [task_id for _, task_id, state in waiting if state is State.WAITING]
    if task_ids:
        connection.execute(_CLOSE, {"waiter_ids": [*task_ids, *further(task_ids)], "at": now})


def reopen(connection: Connection, tenant: str, task_id: str, waiter_id: str | None = None) -> bool:
    """Let a task, or its run with the id `waiter_id`, wait again for the signal that it has not had.

    A signal that came since ends the wait.
    """
    waiter_id = waiter_id or task_id
    found = of_waiter(connection, waiter_id)
    if found is None or found.signal is not None:
        return False
    again = NewWait(tenant, task_id, waiter_id, found.wait)
    name_locks.share_late(connection, names([again]))
    connection.execute(_REOPEN, {"waiter_ids": [waiter_id, *further([waiter_id])]})
    came = new_waits.first_of(connection, again)
    if came is not None:
        close(connection, [waiter_id], came)
    return True


def waive(connection: Connection, task_id: str, now: datetime) -> bool:
    """Let a task that runs again start without the event whose wait has expired.

    Returns whether there was such a wait.
    """
    given = {"waiter_ids": [task_id, *further([task_id])], "now": now}
    return connection.execute(_WAIVE, given).rowcount > 0


def log(connection: Connection, reasons: Mapping[str, str], task_ids: Sequence[str], now: datetime) -> int:
    """Log why waits have ended, by waiter, of runs of these tasks that wait for something else; return how many."""
    if not reasons:
        return 0
    rows = connection.execute(_WAITING_STILL, {"task_ids": sorted(set(task_ids))}).all()
    found = [(row, why) for row in rows if (why := reasons.get(row.id) or reasons.get(row.task_id))]
    kind, actor = EventKind.WAIT_ENDED, DUETIME_ACTOR
    event_log.append(
        connection,
        [
            event_log.entry(row.tenant, row.task_id, row.id, now, kind=kind, actor=actor, reason=why)
            for row, why in found
        ],
    )
    return len(found)
