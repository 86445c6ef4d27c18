"""Reads ready and running runs, to fill or rebuild a queue."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

from duetime.scheduler.run_records import ReadyRun, RunningRun
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.damage import is_damaged
from duetime.scheduler.store.schema.rows import NOT_PAUSED, Row, ordered
from duetime.scheduler.store.schema.tables.tasks import attempts, runs, tasks
from duetime.scheduler.store.schema.types import Instant
from duetime.scheduler.store.sql.batch import Batch
from duetime.scheduler.store.statements.waiters import with_waiters
from duetime.scheduler.task import DeadlineType, State, Task
from duetime.scheduler.views import TaskRecord
from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    bindparam,
    false,
    func,
    literal_column,
    select,
    true,
    update,
)

RUNS_OF_TASKS = runs.join(tasks, tasks.c.id == runs.c.task_id)
ATTEMPTS_OF_RUNS = attempts.join(runs, runs.c.id == attempts.c.run_id)
IS_RUNNING: ColumnElement[bool] = and_(literal_column("attempts.ended_at IS NULL"), runs.c.state == State.RUNNING)
"""Running runs, found by their open attempts: an index on the state would have to be written by each start."""

READY_COLUMNS = ordered(
    ReadyRun,
    run_id=runs.c.id,
    task_id=runs.c.task_id,
    tenant=runs.c.tenant,
    scheduled_for=runs.c.scheduled_for,
    first_ready_at=runs.c.first_ready_at,
    action=tasks.c.action,
    crashes=runs.c.crashes,
    tier=tasks.c.priority,
    needs=tasks.c.needs,
    deadline=runs.c.deadline,
    deadline_type=tasks.c.deadline_type,
    estimate=tasks.c.estimate,
    drop_at=runs.c.drop_at,
    created_at=tasks.c.created_at,
    followed=tasks.c.followed.is_not(false()),  # one that cannot be read may be followed
)
_OF_READY = [field.name for field in fields(ReadyRun)]
_FIRST_READY, _DEADLINE, _TYPE, _DROP_AT = map(
    _OF_READY.index, ("first_ready_at", "deadline", "deadline_type", "drop_at")
)

# literal conditions, as in the partial indexes: with parameters neither database is sure to use these
IS_ACTIVE: ColumnElement[bool] = literal_column("runs.wake_at IS NULL AND runs.ended_at IS NULL")
_ALL_READY = select(*READY_COLUMNS).select_from(RUNS_OF_TASKS).where(IS_ACTIVE, runs.c.state == State.READY)
_NEVER_STARTED = (
    select(func.count())
    .select_from(runs)
    .where(runs.c.id.in_(bindparam("run_ids", expanding=True)), runs.c.state == State.READY, runs.c.attempt == 0)
)
_RESERVED_INDEX = [field.name for field in fields(RunningRun)].index("reserved")
_RUNNING = ordered(
    RunningRun,
    run_id=runs.c.id,
    task_id=runs.c.task_id,
    tenant=runs.c.tenant,
    worker=runs.c.worker,
    attempt=runs.c.attempt,
    tier=tasks.c.priority,
    needs=tasks.c.needs,
    reserved=runs.c.reserved,
    token=func.coalesce(runs.c.token, ""),
    lease_until=runs.c.lease_until,
    created_at=tasks.c.created_at,
    action=tasks.c.action,
)
_ALL_RUNNING = (
    select(*_RUNNING).select_from(ATTEMPTS_OF_RUNS.join(tasks, tasks.c.id == runs.c.task_id)).where(IS_RUNNING)
)


def ready_run(row: Row, now: datetime, first_ready_at: datetime | None = None) -> ReadyRun:
    """Read a row that begins with the READY columns; `first_ready_at` is for a run that has none yet."""
    values = list(row[: len(READY_COLUMNS)])
    values[_FIRST_READY] = values[_FIRST_READY] or first_ready_at or now
    values.append(_late(values, now))  # the field behind those of the columns
    return ReadyRun(*values)


def ready(connection: Connection, limit: int, after: str | None, now: datetime) -> tuple[list[ReadyRun], list[str]]:
    """Return ready runs, and the ids of damaged ones among them."""
    page = unreadable.without(connection, _paged(_ALL_READY, runs.c.id, limit, after), runs.c.id)
    rows, some_damaged = unreadable.every(connection, page)
    lost = [row[0] for row in rows if is_damaged(row)] if some_damaged else []
    found = [ready_run(row, now) for row in rows if row[0] not in lost]
    return with_waiters(connection, found, now), lost


def ready_by_id(connection: Connection, run_ids: Collection[str], now: datetime) -> list[ReadyRun]:
    """Return runs in any state as a queue orders them at a time; damaged ones are left out."""
    named = select(*READY_COLUMNS).select_from(RUNS_OF_TASKS).where(runs.c.id.in_(run_ids))
    found = [ready_run(row, now) for row in unreadable.rows(connection, named) if not is_damaged(row)]
    return with_waiters(connection, found, now)


def never_started(connection: Connection, run_ids: Sequence[str]) -> int:
    return connection.execute(_NEVER_STARTED, {"run_ids": list(run_ids)}).scalar_one()


def running(connection: Connection, limit: int, after: str | None) -> list[RunningRun]:
    found = unreadable.rows(connection, _paged(_ALL_RUNNING, attempts.c.run_id, limit, after))
    return [_running_run(row) for row in found]


def _running_run(row: Row) -> RunningRun:
    values = list(row)
    values[_RESERVED_INDEX] = values[_RESERVED_INDEX] or {}
    return RunningRun(*values)


def _paged(statement: Select[Any], run_id: ColumnElement[str], limit: int, after: str | None) -> Select[Any]:
    page = statement.order_by(run_id).limit(limit)
    return page if after is None else page.where(run_id > after)


def _late(values: Row, now: datetime) -> bool:
    deadline, drop_at = values[_DEADLINE], values[_DROP_AT]
    if deadline is None or values[_TYPE] is DeadlineType.HARD:
        return False
    return drop_at is None or min(drop_at, deadline) <= now


_FOLLOW_PAUSE = (
    update(runs)
    .where(runs.c.task_id == bindparam("of_task"), runs.c.ended_at.is_(None), runs.c.paused != bindparam("now_paused"))
    .values(paused=bindparam("now_paused"))
)
_FOLLOW_PAUSES = Batch(_FOLLOW_PAUSE)
_OVERDUE_PAUSED = (
    select(runs.c.id)
    .select_from(RUNS_OF_TASKS)
    .where(runs.c.wake_at <= bindparam("now", type_=Instant()), NOT_PAUSED, tasks.c.paused == true())
    .order_by(runs.c.wake_at)
    .limit(bindparam("most"))
)
_OVERDUE_PAUSED_LOCKED = _OVERDUE_PAUSED.with_for_update(of=[runs, tasks], skip_locked=True)
_NOTE_PAUSED = update(runs).where(runs.c.id.in_(bindparam("run_ids", expanding=True))).values(paused=true())


def follow_pause(connection: Connection, before: TaskRecord, after: Task) -> None:
    """Copy a changed pause to the open runs of a task; the caller has locked the task.

    A run that waits for another one of its series is looked at again.
    """
    if before.task.paused or after.paused or before.side_runs:
        connection.execute(_FOLLOW_PAUSE, {"of_task": after.id, "now_paused": after.paused})


def follow_pauses(connection: Connection, pairs: Iterable[tuple[Task, Task]]) -> None:
    """Copy changed pauses like `follow_pause`, of tasks before and after their changes."""
    rows = [{"of_task": new.id, "now_paused": new.paused} for old, new in pairs if old.paused or new.paused]
    _FOLLOW_PAUSES.run(connection, rows)


def overdue_paused(connection: Connection, limit: int, now: datetime) -> list[str]:
    """Return at most `limit` overdue runs of paused tasks that are not marked."""
    return list(connection.execute(_OVERDUE_PAUSED, {"now": now, "most": limit}).scalars())


def note_paused(connection: Connection, limit: int, now: datetime) -> int:
    """Mark at most `limit` overdue runs of paused tasks; return how many were not marked before."""
    found = list(connection.execute(_OVERDUE_PAUSED_LOCKED, {"now": now, "most": limit}).scalars())
    if found:
        connection.execute(_NOTE_PAUSED, {"run_ids": found})
    return len(found)
