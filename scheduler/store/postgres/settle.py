"""PostgreSQL: settle attempts by one statement, if their tasks are unchanged since the claim.

The statement locks the tasks that still have the revision of the claim. It ends those of their runs that still run this
attempt, and writes the consequences of each end. All others are left to `statements.settle`, as are tasks that others
come after. `postgres.start` explains why commits during its lock wait do no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from duetime.scheduler.run_records import Settlement
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.sql.batch import Batch
from duetime.scheduler.store.sql.recordset import (
    MAX_ROWS,
    CompiledStatement,
    Rows,
    compiled,
    of_many,
    parameter,
    types_of,
)
from duetime.scheduler.store.statements.endings import endings
from duetime.scheduler.store.statements.endings.claimed_run import AttemptEnd, Claimed
from duetime.scheduler.task import State
from sqlalchemy import (
    CTE,
    Boolean,
    ColumnElement,
    Connection,
    Dialect,
    Integer,
    bindparam,
    column,
    select,
    text,
    true,
)
from sqlalchemy.dialects.postgresql import JSONB

_KEYS = ("ending", "of_run", "run_id")
_KNOWN = {"its_task": tasks.c.id.type, "revision": tasks.c.revision.type, "is_current": Boolean()}

# Tables: tasks are locked, always in the same order, which avoids deadlocks; runs are written. `_plan` adds a CTE for
#   each kind of consequence that any end has: attempts, events, inbox, deliveries, usage, the next run and others.
#   These are the batches of `statements.endings`, limited to the rows of runs that this CTE, `ended`, returns.
# Parameters: `rows_0`, an array with an object for each end: the columns of `line`. `rows_1` and so on, the same for
#   the consequences. `all`, the largest number of rows.
# Sees: what was committed when it began, and each run and task as it is behind the lock.
# Returns: the ids of the runs that have ended; all others are left as they are.
# Plan: the LIMIT makes the planner assume few rows; it takes an unknown limit for a tenth of the rows. `IS TRUE` finds
#   a run by its id, never by the index of running runs.
# Why: a task that is as it was at the claim has the consequences that its worker knew. Values as in
#   `endings.END_RUNS`, which the other databases use.
_ENDED: Final = """
    WITH locked AS (
        SELECT line.*
        FROM (
            SELECT *
            FROM jsonb_to_recordset(:rows_0) AS line (
                run_id text, fence integer, its_task text, revision integer, is_current boolean, new_state text,
                new_wake_at timestamptz, new_listed_at timestamptz, new_ended_at timestamptz, new_failures integer,
                more_crashes integer, new_summary text, new_result jsonb, new_error text, new_checkpoint jsonb,
                is_failure boolean)
            LIMIT :all
        ) AS line
        JOIN tasks ON tasks.id = line.its_task AND tasks.revision = line.revision AND NOT tasks.followed
        ORDER BY tasks.id
        FOR UPDATE OF tasks
    )
    UPDATE runs SET
        state = locked.new_state, current = runs.current AND locked.is_current, wake_at = locked.new_wake_at,
        listed_at = locked.new_listed_at, ended_at = locked.new_ended_at, failures = locked.new_failures,
        crashes = runs.crashes + locked.more_crashes, summary = locked.new_summary, result = locked.new_result,
        error = locked.new_error, last_failure = locked.is_failure,
        checkpoint = coalesce(locked.new_checkpoint, runs.checkpoint), lease_until = NULL, reserved = NULL, token = NULL
    FROM locked
    WHERE runs.id = locked.run_id AND runs.attempt = locked.fence AND (runs.state = 'running') IS TRUE
        AND NOT runs.cancel_requested
    RETURNING runs.id"""


def _is_known(settlement: Settlement) -> bool:
    """Whether the settlement has all its consequences: not where a side run may become current, or the task changes.

    A run that waits for an event has to look for those that have come, and an end that others follow for these.
    """
    claim, more = settlement.claim, (settlement.pauses, settlement.raises, settlement.spawned, settlement.follow_up)
    if claim is None or claim.followed or any(more) or settlement.awaits:
        return False
    if endings.may_have_heirs(settlement, settlement.task_revision):
        return False
    return (claim.run.attempt, claim.task.revision) == (settlement.attempt, settlement.task_revision)


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
    known = {"its_task": claim.task_id, "revision": claim.revision, "is_current": not goes_on}
    return {**endings.run_row(ending, now), **known}


@lru_cache(maxsize=64)
def _plan(following: Sequence[tuple[Batch, str]], dialect: Dialect) -> CompiledStatement:
    """Return the statement that ends runs and writes these batches, each limited by its key to runs that ended."""
    types = [types_of(endings.END_RUNS, (), dialect) | _KNOWN]
    types += [types_of(*batch.written, dialect) | {key: runs.c.id.type} for batch, key in following]
    given = (bindparam(parameter(0), type_=JSONB()), bindparam("all", MAX_ROWS, type_=Integer()))
    ended = text(_ENDED).bindparams(*given).columns(column("id")).cte("ended")
    parts = [
        of_many(*batch.written, of_this, number, _only_of(ended, key)).cte(f"other_{number}")
        for number, (of_this, (batch, key)) in enumerate(zip(types[1:], following, strict=True), 1)
    ]
    return compiled(select(ended.c.id).add_cte(*parts), types, dialect)


def _only_of(ended: CTE, key: str) -> Callable[[Any], ColumnElement[bool]]:
    """Limit consequences to ends that were written.

    They join the table of written ends, and so come after it, because an index allows one current run per task.
    """
    return lambda given: given.c[key].in_(select(ended.c.id)).is_(true())
