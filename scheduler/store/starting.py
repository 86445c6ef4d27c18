"""From due to ready, and from ready to running: both for a whole batch with a handful of statements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from duetime.scheduler.events import EventKind
from duetime.scheduler.store import journal
from duetime.scheduler.store.batches import Batch
from duetime.scheduler.store.locking import exactly, lock_tasks_of
from duetime.scheduler.store.models import attempts, runs, tasks
from duetime.scheduler.store.reading import TASK_AND_RUN
from duetime.scheduler.store.rows import task_and_run
from duetime.scheduler.store.runners import check_epoch
from duetime.scheduler.store.types import Instant
from duetime.scheduler.store.values import Claim, ReadyRun
from duetime.scheduler.task import Run, State, Task
from sqlalchemy import Connection, bindparam, false, func, insert, null, select, update

_NOW = bindparam("now", type_=Instant())
_JOINED = runs.join(tasks, tasks.c.id == runs.c.task_id)
_READY = (
    runs.c.id,
    runs.c.task_id,
    runs.c.tenant,
    runs.c.scheduled_for,
    runs.c.first_ready_at,
    tasks.c.action,
    runs.c.crashes,
)
_THESE = runs.c.id.in_(bindparam("run_ids", expanding=True))

_DUE = (
    select(*_READY, runs.c.state, runs.c.attempt)
    .select_from(_JOINED)
    .where(runs.c.wake_at <= _NOW, tasks.c.paused == false())
    .order_by(runs.c.wake_at)
    .limit(bindparam("most"))
    .with_for_update(of=[runs, tasks], skip_locked=True)
)
_MAKE_READY = (
    update(runs)
    .where(_THESE, runs.c.wake_at.is_not(None))
    .values(state=State.READY, wake_at=null(), first_ready_at=func.coalesce(runs.c.first_ready_at, _NOW))
)
_ALL_READY = select(*_READY).select_from(_JOINED).where(runs.c.state == State.READY).order_by(runs.c.id)

_STARTABLE = TASK_AND_RUN.where(
    _THESE, runs.c.state == State.READY, runs.c.cancel_requested == false(), tasks.c.paused == false()
)
_START = (
    update(runs)
    .where(_THESE, runs.c.state == State.READY)
    .values(
        state=State.RUNNING,
        attempt=runs.c.attempt + 1,
        started_at=func.coalesce(runs.c.started_at, _NOW),
        progress=null(),
        worker=bindparam("by_worker"),
        epoch=bindparam("by_epoch"),
        lease_until=bindparam("until"),
    )
)
_ATTEMPT = Batch(insert(attempts), ("run_id", "number", "worker", "started_at"))


def make_ready(connection: Connection, limit: int, epoch: int | None, now: datetime) -> list[ReadyRun]:
    check_epoch(connection, epoch)
    due = connection.execute(_DUE, {"now": now, "most": limit}).all()
    if not due:
        return []
    changed = connection.execute(_MAKE_READY, {"run_ids": [row.id for row in due], "now": now})
    exactly(len(due), changed.rowcount)
    entries = [
        journal.entry(
            row.tenant,
            row.task_id,
            row.id,
            now,
            kind=EventKind.READY,
            actor=journal.ITSELF,
            move=(row.state, State.READY),
            attempt=row.attempt or None,
        )
        for row in due
    ]
    journal.append(connection, entries)
    return [
        ReadyRun(row.id, row.task_id, row.tenant, row.scheduled_for, row.first_ready_at or now, row.action, row.crashes)
        for row in due
    ]


def ready(connection: Connection, limit: int, after: str | None) -> list[ReadyRun]:
    statement = _ALL_READY.limit(limit)
    if after is not None:
        statement = statement.where(runs.c.id > after)
    return [ReadyRun(*row) for row in connection.execute(statement)]


def start(
    connection: Connection, run_ids: Sequence[str], *, worker: str, epoch: int | None, now: datetime, lease: timedelta
) -> list[Claim]:
    check_epoch(connection, epoch)
    if not run_ids:
        return []
    lock_tasks_of(connection, run_ids)
    rows = connection.execute(_STARTABLE, {"run_ids": list(run_ids)}).all()
    claims = [_claim(*task_and_run(row), worker=worker, now=now) for row in rows]
    if claims:
        _write(connection, claims, epoch, now, now + lease)
    return claims


def _claim(task: Task, run: Run, *, worker: str, now: datetime) -> Claim:
    started_at = run.started_at or now
    running = replace(run, state=State.RUNNING, attempt=run.attempt + 1, started_at=started_at, progress=None)
    return Claim(running, task, worker)


def _write(connection: Connection, claims: list[Claim], epoch: int | None, now: datetime, until: datetime) -> None:
    worker = claims[0].worker
    values = {"now": now, "by_worker": worker, "by_epoch": epoch, "until": until}
    changed = connection.execute(_START, {"run_ids": [claim.run.id for claim in claims], **values})
    exactly(len(claims), changed.rowcount)
    tries = [
        {"run_id": claim.run.id, "number": claim.run.attempt, "worker": worker, "started_at": now} for claim in claims
    ]
    _ATTEMPT.run(connection, tries)
    journal.append(connection, [_started(claim, now) for claim in claims])


def _started(claim: Claim, now: datetime) -> journal.Entry:
    run = claim.run
    return journal.entry(
        run.tenant,
        run.task_id,
        run.id,
        now,
        kind=EventKind.STARTED,
        actor=claim.worker,
        move=(State.READY, State.RUNNING),
        attempt=run.attempt,
    )
