"""Pauses of tasks and of chains that an end of a run brings about."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from duetime.scheduler.events import DUETIME_ACTOR, EventKind
from duetime.scheduler.store.schema.tables.deliveries import inbox
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.statements import event_log
from duetime.scheduler.store.statements.endings.claimed_run import AttemptEnd
from duetime.scheduler.task import Run, Task
from sqlalchemy import BindParameter, Connection, bindparam, false, null, select, true, update

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
_SAID = (
    select(inbox.c.run_id, inbox.c.text)
    .where(inbox.c.run_id.in_(bindparam("run_ids", expanding=True)))
    .order_by(inbox.c.created_at.desc(), inbox.c.id.desc())
    .limit(1)
)
_SAY = (
    update(inbox)
    .where(inbox.c.run_id == bindparam("of_run"))
    .values(text=bindparam("words"), read_at=null(), quiet=false())
)


def write(connection: Connection, endings: Sequence[AttemptEnd], now: datetime) -> None:
    """Pause the tasks, which the caller has locked, and keep their next runs from the timers."""
    _pause(connection, [ending.claim.task_id for ending in endings if ending.settlement.pauses], now)


def pause_chain(
    connection: Connection, coming: Sequence[tuple[Task, Run]], failed: Collection[str], why: str, now: datetime
) -> None:
    """Pause the next generation of a chain; the newest message on the runs that `failed` says so, as an unread one."""
    _pause(connection, [task.id for task, _ in coming], now)
    event_log.append(connection, [_entry(task, run, why, now) for task, run in coming if not task.paused])
    said = connection.execute(_SAID, {"run_ids": list(failed)}).first()
    if said is not None:
        words = f"{said.text} (paused: {why}; resume it to go on)"
        connection.execute(_SAY, {"of_run": said.run_id, "words": words})


def _pause(connection: Connection, task_ids: Sequence[str], now: datetime) -> None:
    if task_ids:
        connection.execute(_PAUSE, {"task_ids": task_ids, "now": now})
        connection.execute(_HOLD, {"task_ids": task_ids})


def _entry(task: Task, run: Run, why: str, now: datetime) -> event_log.EventValues:
    return event_log.entry(
        task.tenant,
        task.id,
        run.id,
        now,
        kind=EventKind.PAUSED,
        actor=DUETIME_ACTOR,
        reason=why,
        before={"paused": False},
        after={"paused": True},
        revision=task.revision + 1,
    )
