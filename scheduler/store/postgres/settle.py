"""PostgreSQL: settle attempts by one statement, if their tasks are unchanged since the claim.

The statement locks the tasks that still have the revision of the claim. It ends those of their runs that still run this
attempt, and writes the consequences of each end. All others are left to `statements.settle`, as are tasks that others
come after. `postgres.start` explains why commits during its lock wait do no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from duetime.scheduler.run_records import Settlement
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.sql.batch import Batch
from duetime.scheduler.store.sql.recordset import (
    CompiledStatement,
    Rows,
    Types,
    compiled,
    few,
    of_many,
    parameter,
    recordset,
    types_of,
    with_columns,
)
from duetime.scheduler.store.statements.endings import endings
from duetime.scheduler.store.statements.endings.claimed import AttemptEnd, Claimed
from duetime.scheduler.task import State
from sqlalchemy import CTE, Boolean, ColumnElement, Connection, Dialect, and_, bindparam, false, select, true

_END = endings.END_RUNS.where(runs.c.cancel_requested == false()).values(
    current=and_(runs.c.current, bindparam("stays", type_=Boolean()))
)
_KEYS = ("ending", "of_run", "run_id")
_KNOWN = {"its_task": tasks.c.id.type, "revision": tasks.c.revision.type}


def _is_known(settlement: Settlement) -> bool:
    """Whether the settlement has all its consequences: not where a side run may become current, or the task changes.

    A run that waits for an event has to look for those that have come.
    """
    claim, more = settlement.claim, (settlement.pauses, settlement.raises, settlement.spawned, settlement.follow_up)
    if any(more) or settlement.awaits or endings.may_have_heirs(settlement, settlement.task_revision):
        return False
    return claim is not None and (claim.run.attempt, claim.task.revision) == (
        settlement.attempt,
        settlement.task_revision,
    )


def settle(connection: Connection, settlements: Sequence[Settlement], now: datetime) -> set[int]:
    """Settle what can be settled; return the indexes of these. A second settlement of a run is left out."""
    known = {settlements[n].run_id: n for n in reversed(range(len(settlements))) if _is_known(settlements[n])}
    if not known:
        return set()
    found = [AttemptEnd(_claimed(settlements[n]), settlements[n]) for n in known.values()]
    following = _following(connection, found, now)
    plan = _plan(tuple((batch, _key(rows)) for batch, rows in following), connection.dialect)
    rows = [_row(ending, now) for ending in found]
    ended = plan.execute(connection, rows, *(rows for _, rows in following))
    return {known[run_id] for run_id in ended.scalars()}


def _following(connection: Connection, found: Sequence[AttemptEnd], now: datetime) -> list[tuple[Batch, Rows]]:
    """Return the consequences, next occurrences first; each row names the run that is ending."""
    begun = endings.next_rows(found)
    origins = {row["id"]: row["ending"] for row in begun}
    parts = [(batch, rows) for batch, rows in endings.parts(connection, found, now) if rows]
    if not begun:
        return parts
    of_next = [(batch, [{**row, "ending": _origin(row, origins)} for row in rows]) for batch, rows in parts]
    return [(endings.INSERT_NEXT, begun), *of_next]


def _origin(row: Mapping[str, Any], origins: Mapping[str, str]) -> str:
    run_id = row[_key([row])]
    return origins.get(run_id, run_id)


def _key(rows: Rows) -> str:
    """Return the column that names the ending run."""
    return next(name for name in _KEYS if name in rows[0])


def _claimed(settlement: Settlement) -> Claimed:
    claim = settlement.claim
    assert claim is not None
    run, task = claim.run, claim.task
    return Claimed(
        run_id=run.id,
        task_id=task.id,
        tenant=run.tenant,
        state=State.RUNNING,
        attempt=settlement.attempt,
        worker=claim.worker,
        scheduled_for=run.scheduled_for,
        cancel_requested=False,  # a wish to cancel would have changed the task
        revision=task.revision,
        repeat=task.repeat,
        paused=task.paused,
        deadline=run.deadline,
        penalty=task.penalty,
        followed=False,  # else the statement leaves it
    )


def _row(ending: AttemptEnd, now: datetime) -> dict[str, Any]:
    claim, goes_on = ending.claim, ending.settlement.next_run is not None
    known = {"its_task": claim.task_id, "revision": claim.revision, "stays": not goes_on}
    return {**endings.run_row(ending, now), **known}


@lru_cache(maxsize=64)
def _plan(following: Sequence[tuple[Batch, str]], dialect: Dialect) -> CompiledStatement:
    written = [batch.written for batch, _ in following]
    types = [types_of(_END, (), dialect) | _KNOWN]
    types += [types_of(*batch.written, dialect) | {key: runs.c.id.type} for batch, key in following]
    ended = _ended(types[0])
    parts = [
        of_many(*each, of_this, number, _only_of(ended, key)).cte(f"other_{number}")
        for number, (each, of_this, (_, key)) in enumerate(zip(written, types[1:], following, strict=True), 1)
    ]
    return compiled(select(ended.c.id).add_cte(*parts), types, dialect)


def _ended(types: Types) -> CTE:
    given = few(recordset(types, parameter(0)))
    unchanged = and_(tasks.c.id == given.c.its_task, tasks.c.revision == given.c.revision, tasks.c.followed == false())
    found = select(*given.c).select_from(given.join(tasks, unchanged)).order_by(tasks.c.id)
    locked = found.with_for_update(of=tasks).cte("locked")
    return with_columns(_END, dict(locked.c)).returning(runs.c.id).cte("ended")


def _only_of(ended: CTE, key: str) -> Callable[[Any], ColumnElement[bool]]:
    """Limit consequences to ends that were written.

    They join the table of written ends, and so come after it, because an index allows one current run per task.
    """
    return lambda given: given.c[key].in_(select(ended.c.id)).is_(true())
