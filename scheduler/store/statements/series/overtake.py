"""Lets the next occurrence overtake an open run: it is stopped, or continues at the same time."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

from duetime.scheduler.events import DUETIME_ACTOR, EventKind
from duetime.scheduler.records import ChangeOrigin
from duetime.scheduler.remedies import OVERTAKEN_REASON
from duetime.scheduler.rules.series.overtake import next_overtake_try, overtake_change
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.schema.types import Instant
from duetime.scheduler.store.statements import change as changing
from duetime.scheduler.store.statements import read
from duetime.scheduler.store.statements.generations import generation_rows
from duetime.scheduler.store.statements.ready_runs import RUNS_OF_TASKS
from duetime.scheduler.store.statements.series import generation_overtake
from duetime.scheduler.store.statements.series.timers import OVERTAKABLE
from duetime.scheduler.task import State
from sqlalchemy import Connection, bindparam, false, null, select, update

GOES_ON_REASON = "run {} goes on"
"""Why an occurrence began before the run before it had ended."""

_DUE = (
    select(
        runs.c.id, runs.c.tenant, runs.c.task_id, runs.c.overtaken_at, tasks.c.repeat
    )  # what cannot be read is left alone
    .select_from(RUNS_OF_TASKS)
    .where(*OVERTAKABLE, runs.c.overtaken_at <= bindparam("now", type_=Instant()))
    .order_by(runs.c.overtaken_at)
    .limit(bindparam("most"))
)
_DUE_IDS = _DUE.with_only_columns(runs.c.id)
_DUE_STEPS = _DUE.where(tasks.c.repeat.is_(None))
"""Not locked: the steps of a chain are locked together, in the order of their ids."""

_DUE_LOCKED = _DUE.where(tasks.c.repeat.is_not(None)).with_for_update(of=[runs, tasks], skip_locked=True)
_LOOKED_AT = (
    update(runs)
    .where(runs.c.id.in_(bindparam("run_ids", expanding=True)))
    .where(runs.c.ended_at.is_(None), runs.c.cancel_requested == false())  # another process may have looked first
    .values(overtaken_at=null())
)
_PUT_OFF = update(runs).where(runs.c.id == bindparam("run_id")).values(overtaken_at=bindparam("at"))


class Overtaken(NamedTuple):
    """The tasks whose series went on, and those of their runs that ended before they had started."""

    tasks: list[str]
    cancelled: list[str]


def due(connection: Connection, limit: int, now: datetime) -> list[str]:
    """Return at most `limit` runs that it is time to overtake, the most overdue first."""
    wanted = unreadable.without(connection, _DUE_IDS, runs.c.id)
    return list(connection.execute(wanted, {"now": now, "most": limit}).scalars())


def overtake(connection: Connection, only: Collection[str] | None, limit: int, now: datetime) -> Overtaken:
    """Let the next occurrence overtake at most `limit` due runs, or `only` these."""
    wanted = unreadable.without(connection, _DUE_LOCKED, runs.c.id, only)
    found = Overtaken([], [])
    alone = unreadable.rows(connection, wanted, {"now": now, "most": limit})
    for row in alone:
        _overtake(connection, row.tenant, row.task_id, now, found)
    wanted = unreadable.without(connection, _DUE_STEPS, runs.c.id, only)
    if steps := unreadable.rows(connection, wanted, {"now": now, "most": limit - len(alone)}):
        _overtake_chains(connection, steps, now, found)
    return found


def _overtake_chains(connection: Connection, steps: unreadable.FoundRows, now: datetime, found: Overtaken) -> None:
    task_ids = [row.task_id for row in steps]
    generation_rows.lock_with_chains(connection, task_ids)
    connection.execute(_LOOKED_AT, {"run_ids": [row.id for row in steps]})  # a chain may have a next time
    for chain_id in generation_rows.chains_of(connection, task_ids):
        moved = generation_overtake.overtake(connection, chain_id, now)
        found.tasks.extend(run.task_id for run in moved)
        found.cancelled.extend(run.id for run in moved if run.state is State.CANCELLED)


def _overtake(connection: Connection, tenant: str, task_id: str, now: datetime, found: Overtaken) -> None:
    record = read.locked_record(connection, tenant, task_id)
    change, run = overtake_change(record, now), record.run
    if change is None:
        connection.execute(_PUT_OFF, {"run_id": run.id, "at": next_overtake_try(record.task, run, now)})
        return
    reason = GOES_ON_REASON.format(run.id) if change.as_side_run else OVERTAKEN_REASON
    kind = change.kind or EventKind.NEXT_OCCURRENCE
    changing.apply(connection, record, change, ChangeOrigin(DUETIME_ACTOR, kind, reason), now)
    found.tasks.append(task_id)
    if change.run.state is State.CANCELLED:
        found.cancelled.append(run.id)
