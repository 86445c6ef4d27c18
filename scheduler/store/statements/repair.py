"""Mends damaged runs and tasks when they are cancelled, and ends those that are to run as failed.

Neutral values replace what cannot be read; an event keeps what stood there. A database of a newer version is left as it
is, because that version may know how to read it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from duetime.scheduler.errors import UnreadableTask
from duetime.scheduler.events import DUETIME_ACTOR, EventKind
from duetime.scheduler.principal import Acting
from duetime.scheduler.rules.settlement import with_consequences
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.run_records import Claim, Expired, Settlement
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.unreadable import Unreadable
from duetime.scheduler.store.migrations.upgrade import HEAD_VERSION, revision
from duetime.scheduler.store.schema.damage import Salvaged, is_damaged, salvaged
from duetime.scheduler.store.schema.rows import NOT_PAUSED, RUN_FIELDS, TASK_FIELDS, Row, folded
from duetime.scheduler.store.schema.tables.tasks import attempts, runs, tasks
from duetime.scheduler.store.schema.values import LAST_INSTANT
from duetime.scheduler.store.sql.locks import lock_tasks_of
from duetime.scheduler.store.statements import event_log, read
from duetime.scheduler.store.statements.endings import endings
from duetime.scheduler.store.statements.endings.claimed_run import AttemptEnd, Claimed
from duetime.scheduler.store.statements.endings.conclusions import concluding
from duetime.scheduler.store.statements.read import TASK_AND_RUN
from duetime.scheduler.store.statements.ready_runs import IS_ACTIVE
from duetime.scheduler.store.statements.signals import ended_waits
from duetime.scheduler.task import Run, State, Task
from duetime.scheduler.views import TaskRecord
from sqlalchemy import Connection, bindparam, null, select, true, union, update

_THESE = TASK_AND_RUN.where(runs.c.id.in_(bindparam("run_ids", expanding=True)))
_OPEN_OF_TASK = TASK_AND_RUN.where(tasks.c.id == bindparam("of_task"), runs.c.ended_at.is_(None) | runs.c.current)
CLAIMABLE = frozenset({State.READY, State.RUNNING})
_IDENTITY = frozenset({"id", "task_id", "tenant", "scheduled_for", "generation", "current"})
"""Columns that indexes and other rows refer to: they stay as they are."""

_FAIL = update(runs).values(
    state=State.FAILED,
    last_failure=true(),
    ended_at=bindparam("now"),
    listed_at=bindparam("now"),
    error=bindparam("why"),
    wake_at=null(),
    drop_at=null(),
    lease_until=null(),
    reserved=null(),
    token=null(),
)
_END_ATTEMPTS = (
    update(attempts)
    .where(attempts.c.run_id == bindparam("of_run"), attempts.c.ended_at.is_(None))
    .values(ended_at=bindparam("now"), outcome="failed", reason=bindparam("why"))
)
_LEASED_FOR_EVER = (IS_ACTIVE, runs.c.state == State.RUNNING, runs.c.lease_until > LAST_INSTANT)
_UNFOUND = union(
    select(runs.c.id).where(runs.c.wake_at > LAST_INSTANT, NOT_PAUSED),  # so is what is no instant, on both databases
    select(runs.c.id).where(
        IS_ACTIVE,
        runs.c.state.not_in([*CLAIMABLE, State.WAITING]) | runs.c.cancel_requested.not_in([True, False]),
    ),
    select(runs.c.id).where(*_LEASED_FOR_EVER),
)
_RENEWABLE = update(runs).where(*_LEASED_FOR_EVER).values(lease_until=bindparam("until"))
_OF_SERIES = frozenset({"scheduled_for", "slot", "number"})


class _Pair:
    """A damaged row of a task and one of its runs."""

    def __init__(self, row: Row) -> None:
        self.tasks: Salvaged = salvaged(row[: len(TASK_FIELDS)], TASK_FIELDS)
        self.runs: Salvaged = salvaged(row[len(TASK_FIELDS) : len(TASK_FIELDS) + len(RUN_FIELDS)], RUN_FIELDS)
        self.task, self.run = Task(*self.tasks.values), Run(*self.runs.values)

    def reason(self) -> str:
        return "damaged: " + "; ".join((*self.tasks.sentences(), *self.runs.sentences()))


def whole(connection: Connection, found: Sequence[Any], now: datetime) -> list[Any]:
    """Return the rows that can be read; end the others as failed. Rows begin with the id of their run."""
    end(connection, [row[0] for row in found if is_damaged(row)], now)
    return [row for row in found if not is_damaged(row)]


def started(connection: Connection, found: Sequence[Any], now: datetime) -> list[Any]:
    """Return the rows of TASK_FIELDS and RUN_FIELDS that can be read; end the runs of the others as failed."""
    end(connection, [row[len(TASK_FIELDS)] for row in found if is_damaged(row)], now)
    return [row for row in found if not is_damaged(row)]


def end(
    connection: Connection, run_ids: Sequence[str], now: datetime, *, only: Collection[State] = frozenset(State)
) -> list[Expired]:
    """End those of the runs that are damaged, open and in one of these states, as failed; return them."""
    if not run_ids:
        return []
    lock_tasks_of(connection, run_ids)
    found, _ = unreadable.every(connection, _THESE, {"run_ids": list(run_ids)})
    pairs = [pair for pair in map(_Pair, filter(is_damaged, found)) if pair.run.state in only]
    if pairs and not _may_mend(connection):
        for pair in pairs:
            Unreadable.of(connection).leave(runs.name, pair.run.id)
        return []
    ending = [pair for pair in pairs if pair.run.state not in TERMINAL]
    for pair in ending:
        _mend(connection, pair, {"actor": DUETIME_ACTOR, "via": None}, now)
        _fail(connection, pair, now)
    ended_waits.end(connection, [(pair.run.id, pair.task.id, pair.run.state) for pair in ending], now)
    return [Expired(pair.run.id, pair.task.id) for pair in ending]


def unfound(connection: Connection) -> list[str]:
    """Return open runs that no timer, no queue and no lease finds, because a word or an instant cannot be read."""
    return list(connection.execute(_UNFOUND).scalars())


def end_unfound(connection: Connection, run_ids: Sequence[str], now: datetime) -> list[Expired]:
    """End those of these runs as failed that are damaged; where a lease ends at no instant, it has ended now.

    Whoever holds such a run renews the lease.
    """
    connection.execute(_RENEWABLE.where(runs.c.id.in_(list(run_ids))), {"until": now})
    return end(connection, run_ids, now)


def mended(connection: Connection, record: TaskRecord, kind: EventKind, by: Acting, now: datetime) -> TaskRecord:
    """Return a damaged task as it can be cancelled; any other change raises `UnreadableTask`. It is locked."""
    task = record.task
    found, _ = unreadable.every(connection, _OPEN_OF_TASK, {"of_task": task.id})
    pairs = [_Pair(row) for row in found if is_damaged(row)]
    if not pairs:  # only its past is damaged
        return record
    if kind is not EventKind.CANCELLED or not _may_mend(connection):
        raise UnreadableTask(task.id, record.damage)
    for pair in pairs:
        _mend(connection, pair, by, now)
    return read.record(connection, task.tenant, task.id)


def _may_mend(connection: Connection) -> bool:
    """Whether no newer version has upgraded the schema while this process was running."""
    return revision(connection) == HEAD_VERSION


def _mend(connection: Connection, pair: _Pair, by: Acting, now: datetime) -> None:
    stored: dict[str, str] = {}
    for table, part, found in ((tasks, pair.tasks, pair.task), (runs, pair.runs, pair.run)):
        values = {name: getattr(found, name) for name in part.unread if name not in _IDENTITY}
        if "title" in values:
            values["title_folded"] = folded(pair.task.title)
        if values:
            connection.execute(update(table).where(table.c.id == found.id).values(values))
        stored |= {name: unread.stored for name, unread in part.unread.items()}
    of = (pair.run.tenant, pair.task.id, pair.run.id, now)
    entry = event_log.entry(*of, kind=EventKind.DAMAGED, **by, reason=pair.reason(), before=stored)
    event_log.append(connection, [entry])


def _fail(connection: Connection, pair: _Pair, now: datetime) -> None:
    why = {"now": now, "why": pair.reason()}
    connection.execute(_FAIL.where(runs.c.id == pair.run.id), why)
    connection.execute(_END_ATTEMPTS, {**why, "of_run": pair.run.id})
    endings.follow(connection, [_ending(pair, now)], now)


def _ending(pair: _Pair, now: datetime) -> AttemptEnd:
    """Return the end with its consequences; a series continues where its task and the place in it can be read."""
    task, run, why = pair.task, pair.run, pair.reason()
    failed = Settlement(
        run.id,
        run.attempt,
        task.revision,
        to=State.FAILED,
        kind=EventKind.FAILED,
        outcome="failed",
        reason=why,
        error=why,
        dead_letter=True,
    )
    goes_on = not pair.tasks.unread and _OF_SERIES.isdisjoint(pair.runs.unread)
    claim = Claim(run, task if goes_on else replace(task, repeat=None), "")
    return AttemptEnd(_claimed(task, run), concluding(partial(with_consequences, now=now), claim, failed))


def _claimed(task: Task, run: Run) -> Claimed:
    return Claimed(
        run.id,
        task.id,
        run.tenant,
        run.state,
        run.attempt,
        "",
        run.scheduled_for,
        run.cancel_requested,
        task.revision,
        task.repeat,
        task.paused,
        run.deadline,
        task.penalty,
        followed=True,
    )
