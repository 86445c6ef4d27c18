"""Waits of runs that end, or are to start now, before their event has come: no later event counts for them.

That of a task is closed, and is opened again for a run in the place of that one. That of a run is deleted.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from duetime.scheduler.store.schema.tables.signals import signal_waits
from duetime.scheduler.store.schema.types import Instant
from duetime.scheduler.store.statements.signals.kept_waits import further
from duetime.scheduler.store.statements.signals.own_waits import forget_open
from duetime.scheduler.store.statements.signals.wait_room import OPEN_WAIT
from duetime.scheduler.task import State
from duetime.scheduler.waits.signal import OnTimeout
from sqlalchemy import Connection, bindparam, false, update

_WAITS = frozenset({State.WAITING, State.SUSPENDED})
_CLOSE = (
    update(signal_waits)
    .where(signal_waits.c.waiter_id.in_(bindparam("waiter_ids", expanding=True)), OPEN_WAIT)
    .values(closed_at=bindparam("at"))
)


_WAIVE = (
    update(signal_waits)
    .where(signal_waits.c.waiter_id.in_(bindparam("waiter_ids", expanding=True)), signal_waits.c.signal_id.is_(None))
    .where(signal_waits.c.closed_at.is_not(None), signal_waits.c.until <= bindparam("now", type_=Instant()))
    .values(on_timeout=OnTimeout.RUN, at_once=false())
)


def waive(connection: Connection, task_id: str, now: datetime) -> bool:
    """Let a task that runs again go without the event for which it has waited until its time was over.

    Returns whether it had waited so.
    """
    given = {"waiter_ids": [task_id, *further([task_id])], "now": now}
    return connection.execute(_WAIVE, given).rowcount > 0


def end(connection: Connection, ending: Iterable[tuple[str, str, State]], now: datetime) -> None:
    """End the waits of runs, each with its task and the state that it leaves."""
    waiting = [each for each in ending if each[2] in _WAITS]
    forget_open(connection, [run_id for run_id, _, _ in waiting])
    task_ids = [task_id for _, task_id, state in waiting if state is State.WAITING]
    if task_ids:
        connection.execute(_CLOSE, {"waiter_ids": [*task_ids, *further(task_ids)], "at": now})
