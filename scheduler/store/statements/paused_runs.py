"""Runs of paused tasks stay out of the timers' indexes: the timers look every two seconds, and pauses may be many.

`tasks.paused` decides; `runs.paused` repeats it where the timers look. It is set when a task is paused, cleared in the
transaction that resumes it, and set later for a run that a paused task got in between, once that is overdue.
"""

from __future__ import annotations

from datetime import datetime

from duetime.scheduler.store.schema.rows import NOT_PAUSED
from duetime.scheduler.store.schema.tables import runs, tasks
from duetime.scheduler.store.schema.types import Instant
from duetime.scheduler.store.statements.ready_runs import JOINED
from duetime.scheduler.task import Task
from sqlalchemy import Connection, bindparam, select, true, update

_FOLLOW = (
    update(runs)
    .where(runs.c.task_id == bindparam("of_task"), runs.c.ended_at.is_(None), runs.c.paused != bindparam("now_paused"))
    .values(paused=bindparam("now_paused"))
)
_OVERDUE = (
    select(runs.c.id)
    .select_from(JOINED)
    .where(runs.c.wake_at <= bindparam("now", type_=Instant()), NOT_PAUSED, tasks.c.paused == true())
    .order_by(runs.c.wake_at)
    .limit(bindparam("most"))
    .with_for_update(of=[runs, tasks], skip_locked=True)
)
_NOTE = update(runs).where(runs.c.id.in_(bindparam("run_ids", expanding=True))).values(paused=true())


def follow(connection: Connection, before: Task, after: Task) -> None:
    """Write to the open runs of a changed task whether it is paused; the caller has locked the task."""
    if before.paused or after.paused:
        connection.execute(_FOLLOW, {"of_task": after.id, "now_paused": after.paused})


def note_overdue(connection: Connection, limit: int, now: datetime) -> int:
    """Note that at most `limit` overdue runs are of paused tasks; returns how many were not noted so far."""
    found = list(connection.execute(_OVERDUE, {"now": now, "most": limit}).scalars())
    if found:
        connection.execute(_NOTE, {"run_ids": found})
    return len(found)
