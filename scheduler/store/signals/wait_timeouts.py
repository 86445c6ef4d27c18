"""Waits that no signal has ended in time: their tasks expire, run without it or are skipped, as their callers said."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from duetime.scheduler.chain.judgement import no_event_text
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.tables.signals import signal_waits
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.schema.types import Instant
from duetime.scheduler.store.sql.commit_notes import notes_of
from duetime.scheduler.store.statements import dependants
from duetime.scheduler.store.statements.signals import ended_waits, kept_waits, run_waits
from duetime.scheduler.store.statements.signals.wait_room import OPEN_WAIT
from duetime.scheduler.task import State
from sqlalchemy import Connection, bindparam, false, select, true

_LATE = (
    select(signal_waits.c.waiter_id, signal_waits.c.task_id, signal_waits.c.name)
    .select_from(kept_waits.WAITS_OF_TASKS)
    .where(OPEN_WAIT, signal_waits.c.until <= bindparam("now", type_=Instant()), tasks.c.paused == false())
    .order_by(signal_waits.c.until)
    .limit(bindparam("most"))
)
_LATE_IDS = _LATE.with_only_columns(signal_waits.c.waiter_id)
_LATE_LOCKED = _LATE.with_for_update(of=tasks, skip_locked=True)
_OWN = select(runs.c.task_id).where(
    runs.c.id.in_(bindparam("run_ids", expanding=True)), (runs.c.state == State.WAITING).is_(true())
)
"""Tasks of occurrences that wait before their first start."""


def late(connection: Connection, limit: int, now: datetime) -> list[str]:
    """Return the waiters of at most `limit` waits that are too late."""
    wanted = unreadable.without(connection, _LATE_IDS, signal_waits.c.waiter_id)
    return list(connection.execute(wanted, {"now": now, "most": limit}).scalars())


def end_late(connection: Connection, only: Collection[str] | None, limit: int, now: datetime) -> list[str]:
    """Close at most `limit` waits that are too late, or those of `only` these waiters; return the tasks that waited.

    A wait of a paused task is left until its resume. A run that its handler suspended continues, unless it was moved
    during the wait: it has a time of its own then.
    """
    wanted = unreadable.without(connection, _LATE_LOCKED, signal_waits.c.waiter_id, only)
    found = unreadable.rows(connection, wanted, {"now": now, "most": limit})
    ended_waits.close_late(connection, [row.waiter_id for row in found], now)
    waiting = [row.task_id for row in found if row.waiter_id == row.task_id]
    begun = [row.waiter_id for row in found if row.waiter_id != row.task_id]
    waiting += connection.execute(_OWN, {"run_ids": begun}).scalars() if begun else []
    dependants.let_waiting_go(connection, waiting, now)
    ended_waits.log(connection, {row.waiter_id: no_event_text(row.name) for row in found}, waiting, now)
    moved = run_waits.moved(connection, begun, now)
    going_on = [row for row in found if row.waiter_id in {*begun} - moved]
    woken = run_waits.wake(connection, {row.waiter_id: no_event_text(row.name) for row in going_on}, now)
    notes_of(connection).freed.extend(woken)
    return [*waiting, *woken]
