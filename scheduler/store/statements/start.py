"""Makes due runs ready, and starts ready runs: each a whole batch in a few statements."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from duetime.scheduler.events import DUETIME_ACTOR, EventKind
from duetime.scheduler.run_records import Claim, ReadyRun, Start, StartTerms
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.rows import NOT_PAUSED, run_with, task_and_run
from duetime.scheduler.store.schema.tables.tasks import attempts, runs, tasks
from duetime.scheduler.store.schema.types import Instant
from duetime.scheduler.store.sql.batch import Batch
from duetime.scheduler.store.sql.locks import check_epoch, exactly, lock_tasks_of
from duetime.scheduler.store.statements import event_log, repair
from duetime.scheduler.store.statements.approvals import defaults
from duetime.scheduler.store.statements.read import TASK_AND_RUN
from duetime.scheduler.store.statements.ready_runs import READY_COLUMNS, RUNS_OF_TASKS, ready_run
from duetime.scheduler.store.statements.waiters import with_waiters
from duetime.scheduler.task import DeadlineType, Run, State, Task, Tier
from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    bindparam,
    case,
    false,
    func,
    insert,
    null,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.sql.base import ReadOnlyColumnCollection

Columns = ReadOnlyColumnCollection[str, Any]
Conditions = Sequence[ColumnElement[bool]]
Move = Callable[[Connection, Sequence[Row[Any]], datetime], None]
"""Moves due runs to ready and writes their events, in the form of one kind of database."""

_NOW = bindparam("now", type_=Instant())
_THESE = runs.c.id.in_(bindparam("run_ids", expanding=True))

MAX_DUE_RUNS_SEARCHED = 5_000
"""Due runs among which a full batch looks for urgent ones: some 8 ms, and only while more are due than it takes."""

URGENT_SEARCH_INTERVAL = timedelta(milliseconds=100)
"""Time after a search that found no urgent run: in a long backlog each batch would pay for one otherwise."""

_OF_RUN = (runs.c.state, runs.c.attempt, runs.c.wake_at, runs.c.current)
_IS_DUE = (
    runs.c.wake_at <= bindparam("until", type_=Instant()),
    or_(runs.c.wake_at <= _NOW, runs.c.first_ready_at.is_(None)),
    NOT_PAUSED,
)
_DUE = (
    select(*READY_COLUMNS, *_OF_RUN, tasks.c.repeat, tasks.c.repeat_policy, tasks.c.asks, tasks.c.revision)
    .select_from(RUNS_OF_TASKS)
    .where(*_IS_DUE, tasks.c.paused == false())
    .order_by(runs.c.wake_at)
    .limit(bindparam("most"))
)
_DUE_IDS = _DUE.with_only_columns(runs.c.id)
_NEXT = (
    select(runs.c.id, runs.c.task_id).where(*_IS_DUE).order_by(runs.c.wake_at).limit(MAX_DUE_RUNS_SEARCHED).subquery()
)
_URGENT_IDS = (
    select(_NEXT.c.id)
    .join_from(_NEXT, tasks, tasks.c.id == _NEXT.c.task_id)
    .where(tasks.c.priority.in_((Tier.CRITICAL, Tier.HIGH)), tasks.c.paused == false())
    .limit(bindparam("most"))
)
_DUE_LOCKED = _DUE.with_for_update(of=[runs, tasks], skip_locked=True)
MAKE_READY = (
    update(runs)
    .where(runs.c.wake_at.is_not(None))
    .values(
        state=State.READY,
        wake_at=null(),
        first_ready_at=func.coalesce(runs.c.first_ready_at, case((runs.c.wake_at > _NOW, runs.c.wake_at), else_=_NOW)),
    )
)

_MAKE_THESE_READY = MAKE_READY.where(_THESE)


def may_start(task: Columns) -> Conditions:
    return (
        (runs.c.state == State.READY).is_(true()),  # finds the row by id, never by the index of ready runs
        runs.c.cancel_requested == false(),
        task.paused == false(),
        or_(task.deadline_type != DeadlineType.HARD, runs.c.drop_at.is_(None), runs.c.drop_at > _NOW),
    )


_STARTABLE = TASK_AND_RUN.where(_THESE, *may_start(tasks.c))
_STARTABLE_OF_ACTIONS = _STARTABLE.where(tasks.c.action.in_(bindparam("actions", expanding=True)))
_START = Batch(
    update(runs)
    .where(runs.c.id == bindparam("run_id"), (runs.c.state == State.READY).is_(true()))
    .values(
        state=State.RUNNING,
        attempt=runs.c.attempt + 1,
        started_at=func.coalesce(runs.c.started_at, _NOW),
        progress=null(),
        worker=bindparam("by_worker"),
        epoch=bindparam("by_epoch"),
        lease_until=bindparam("until"),
        reserved=bindparam("holds"),
        token=bindparam("proof"),
    )
)
_ATTEMPT = Batch(insert(attempts), ("run_id", "number", "worker", "started_at"))


class UrgentSearch:
    """Finds urgent runs among those that are due; one that found none is not repeated for a moment."""

    def __init__(self) -> None:
        self._found_none_at: datetime | None = None

    def ids(self, connection: Connection, values: Mapping[str, Any], found: Sequence[Row[Any]]) -> list[str]:
        """Return runs that are due and urgent, without those found already; `values` as for the due runs."""
        now, before = values["now"], self._found_none_at
        if before is not None and before <= now < before + URGENT_SEARCH_INTERVAL:
            return []
        ids = set(connection.execute(_URGENT_IDS, values).scalars())
        self._found_none_at = None if ids else now
        return list(ids.difference(row.id for row in found))


def due(connection: Connection, limit: int, now: datetime, until: datetime) -> list[str]:
    """Return at most `limit` runs that are due, or will be `until` then, in order of time."""
    wanted = unreadable.without(connection, _DUE_IDS, runs.c.id)
    return list(connection.execute(wanted, {"now": now, "until": until, "most": limit}).scalars())


def lock_due(
    connection: Connection,
    limit: int,
    epoch: int | None,
    now: datetime,
    until: datetime,
    *,
    urgent: UrgentSearch,
    only: Collection[str] | None = None,
) -> Sequence[Row[Any]]:
    """Lock and return runs that are due, or will be `until` then; damaged ones end as failed.

    With `only` just these. If more are due, critical and high ones that `urgent` finds go first.
    """
    check_epoch(connection, epoch)
    values = {"now": now, "until": until, "most": limit}
    wanted = unreadable.without(connection, _DUE_LOCKED, runs.c.id, only)
    found, some_damaged = unreadable.every(connection, wanted, values)
    if only is None and len(found) == limit and (first_ids := urgent.ids(connection, values, found)):
        wanted = unreadable.without(connection, _DUE_LOCKED, runs.c.id, first_ids)
        first, more_damaged = unreadable.every(connection, wanted, values)
        found, some_damaged = [*first, *found][:limit], some_damaged or more_damaged
    return repair.whole(connection, found, now) if some_damaged else found


def make_ready(connection: Connection, found: Sequence[Row[Any]], now: datetime, *, move: Move) -> list[ReadyRun]:
    """Move due runs to ready."""
    if not found:
        return []
    defaults.give(connection, found, now)
    move(connection, found, now)
    return with_waiters(connection, [ready_run(row, now, first_ready_at=max(now, row.wake_at)) for row in found], now)


def move_to_ready(connection: Connection, found: Sequence[Row[Any]], now: datetime) -> None:
    these = {"run_ids": [row.id for row in found], "now": now}
    exactly(len(found), connection.execute(_MAKE_THESE_READY, these).rowcount)
    event_log.append(connection, [_made_ready(row, now) for row in found])


def _made_ready(row: Any, now: datetime) -> event_log.EventValues:
    return event_log.entry(
        row.tenant,
        row.task_id,
        row.id,
        now,
        kind=EventKind.READY,
        actor=DUETIME_ACTOR,
        move=(row.state, State.READY),
        attempt=row.attempt or None,
    )


def start(
    connection: Connection,
    starts: Sequence[Start],
    terms: StartTerms,
    now: datetime,
    *,
    may_be_stored: bool = False,  # noqa: ARG001 - the signature of both forms; here a write that stands was answered
) -> list[Claim]:
    """Start runs that may start; `may_be_stored`: those that an earlier try started count as started."""
    check_epoch(connection, terms.epoch)
    if not starts:
        return []
    wanted = {wish.run_id: wish for wish in starts}
    lock_tasks_of(connection, list(wanted))
    startable = _STARTABLE if terms.actions is None else _STARTABLE_OF_ACTIONS
    given = {"run_ids": list(wanted), "now": now, "actions": list(terms.actions or ())}
    rows, some_damaged = unreadable.every(connection, startable, given)
    if some_damaged:
        rows = repair.started(connection, rows, now)
    found = [task_and_run(row) for row in rows]
    claims = [
        _claim(task, run, wanted[run.id], worker=terms.worker, now=now)
        for task, run in found
        if _has_reserved(wanted[run.id], task)
    ]
    if claims:
        _write(connection, claims, terms, now)
    return claims


def held_claim(task: Task, run: Run, wish: Start, worker: str, *, followed: bool = False) -> Claim:
    return Claim(run, task, worker, wish.reserved, wish.token, followed=followed)


def _has_reserved(wish: Start, task: Task) -> bool:
    """Whether the queue reserved the current needs of the task, which may have changed since the run was put there."""
    return not wish.token or all(wish.reserved.get(pool, 0) >= units for pool, units in task.needs.items())


def _claim(task: Task, run: Run, wish: Start, *, worker: str, now: datetime) -> Claim:
    started_at = run.started_at or now
    running = run_with(run, state=State.RUNNING, attempt=run.attempt + 1, started_at=started_at, progress=None)
    return held_claim(task, running, wish, worker)


def _write(connection: Connection, claims: list[Claim], terms: StartTerms, now: datetime) -> None:
    worker = terms.worker
    same = {"now": now, "by_worker": worker, "by_epoch": terms.epoch, "until": now + terms.lease}
    rows = [
        {"run_id": claim.run.id, "holds": dict(claim.reserved) or None, "proof": claim.token or None, **same}
        for claim in claims
    ]
    exactly(len(claims), _START.run(connection, rows))
    tries = [
        {"run_id": claim.run.id, "number": claim.run.attempt, "worker": worker, "started_at": now} for claim in claims
    ]
    _ATTEMPT.run(connection, tries)
    event_log.append(connection, [_started(claim, now) for claim in claims])


def _started(claim: Claim, now: datetime) -> event_log.EventValues:
    run = claim.run
    return event_log.entry(
        run.tenant,
        run.task_id,
        run.id,
        now,
        kind=EventKind.STARTED,
        actor=claim.worker,
        move=(State.READY, State.RUNNING),
        attempt=run.attempt,
    )
