"""Pauses of tasks that an end of a run brings about."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.statements.endings.claimed import AttemptEnd
from sqlalchemy import BindParameter, Connection, bindparam, null, true, update

_THESE: BindParameter[str] = bindparam("task_ids", expanding=True)
_PAUSE = (
    update(tasks)
    .where(tasks.c.id.in_(_THESE))
    .values(
        paused=true(),
        paused_until=null(),  # it failed too often: somebody has to look at it
        revision=tasks.c.revision + 1,
        updated_at=bindparam("now", type_=tasks.c.updated_at.type),
    )
)
_HOLD = update(runs).where(runs.c.task_id.in_(_THESE), runs.c.ended_at.is_(None)).values(paused=true())


def write(connection: Connection, endings: Sequence[AttemptEnd], now: datetime) -> None:
    """Pause the tasks, which the caller has locked, and keep their next runs from the timers."""
    paused = [ending.claim.task_id for ending in endings if ending.settlement.pauses]
    if paused:
        connection.execute(_PAUSE, {"task_ids": paused, "now": now})
        connection.execute(_HOLD, {"task_ids": paused})
