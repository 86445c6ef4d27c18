"""Waits that no signal has ended in time: their tasks expire, run without it or are skipped, as their callers said."""

from __future__ import annotations

from datetime import datetime

from duetime.scheduler.chain.judgement import no_event_in_words
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.tables.signals import signal_waits
from duetime.scheduler.store.schema.tables.tasks import tasks
from duetime.scheduler.store.schema.types import Instant
from duetime.scheduler.store.statements import dependants
from duetime.scheduler.store.statements.endings.follow_ups import FREED
from duetime.scheduler.store.statements.signals import kept_waits, run_waits
from duetime.scheduler.store.statements.signals.kept_waits import OPEN
from sqlalchemy import Connection, bindparam, false, select

_LATE = (
    select(signal_waits.c.waiter_id, signal_waits.c.task_id, signal_waits.c.name, signal_waits.c.until)
    .select_from(kept_waits.JOINED)
    .where(OPEN, signal_waits.c.until <= bindparam("now", type_=Instant()), tasks.c.paused == false())
    .order_by(signal_waits.c.until)
    .limit(bindparam("most"))
    .with_for_update(of=tasks, skip_locked=True)
)


def end_late(connection: Connection, limit: int, now: datetime) -> list[str]:
    """Close at most `limit` waits that are too late, and let their tasks go on or end; return these.

    A wait of a paused task is left until its resume. A run that its handler suspended goes on, unless it was moved
    during the wait: it has a time of its own then.
    """
    found = unreadable.rows(connection, _LATE, {"now": now, "most": limit})
    kept_waits.CLOSE.run(connection, [kept_waits.closing(row.waiter_id, None, now) for row in found])
    waiting = [row.task_id for row in found if row.waiter_id == row.task_id]
    dependants.follow(connection, dependants.settle_waiting(connection, waiting, now), now)
    ends = {row.waiter_id: row.until for row in found if row.waiter_id != row.task_id}
    moved = run_waits.moved(connection, ends, now)
    runs = [row for row in found if row.waiter_id in ends.keys() - moved]
    woken = run_waits.wake(connection, {row.waiter_id: no_event_in_words(row.name) for row in runs}, now)
    connection.info.get(FREED, []).extend(woken)
    return [*waiting, *woken]
