"""PostgreSQL: lock tasks and start their runs, with attempts and events, by one statement.

It may be a transaction of its own, although its snapshot is older than the locks it waits for. PostgreSQL locks and
updates the newest version of a row that still meets the conditions. Other writes of a concurrent transaction stay
invisible. A taken event number then rolls everything back, and a run that became ready later is left out. In both cases
`statements.start` repeats the work behind the locks, where everything is visible.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from duetime.scheduler.events import DUETIME_ACTOR, EventKind
from duetime.scheduler.run_records import Claim, Start, StartTerms
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.rows import RUN_FIELDS, TASK_FIELDS, task_and_run
from duetime.scheduler.store.schema.tables.events import events
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.store.schema.types import Instant
from duetime.scheduler.store.schema.values import encode, instant_text
from duetime.scheduler.store.sql.locks import among, check_epoch, exactly, lock_tasks_of
from duetime.scheduler.store.sql.prepared_statement import PreparedStatement, RowReader
from duetime.scheduler.store.sql.recordset import few, recordset
from duetime.scheduler.store.statements.read import TASK_AND_RUN
from duetime.scheduler.store.statements.start import MAKE_READY, held_claim
from duetime.scheduler.task import State
from sqlalchemy import Column, Connection, Row, Select, Update, bindparam, func, insert, literal, select, true


def _columns(table: str, columns: Sequence[Column[Any]], prefix: str = "") -> str:
    return ", ".join(f'{table}."{column.name}" AS "{prefix}{column.name}"' for column in columns)


_NOW = bindparam("now", type_=Instant())

# Tables: tasks are locked, always in the same order, which avoids deadlocks; runs, attempts and events are written.
# Parameters: `wishes`, an array with [run id, reserved units, token] for each run. `actions`, an array of those that
#   may start, NULL for any. `worker`, `epoch`, `now`, and `until`, the end of the lease.
# Sees: what was committed when it began, and each run and task as it is behind the lock.
# Returns: the columns TASK and RUN of each run that has started, and whether others come after its task.
# Plan: the LIMIT of `wish` makes the planner assume few rows; it takes an unknown limit for a tenth of the rows.
# Why: `IS TRUE` finds a run by its id, never by the index of ready runs. A run without a token has no queue, which
#   would have reserved what its task needs. Conditions as in `statements.start`, events as in `event_log.append`.
_START = PreparedStatement.of(
    f"""
WITH wish AS (
    SELECT line->>0 AS run_id, nullif(line->1, 'null') AS holds, line->>2 AS proof
    FROM jsonb_array_elements(:wishes::jsonb) AS line
    LIMIT :most::integer
), locked AS (
    SELECT {_columns("tasks", TASK_FIELDS)}, tasks.followed, wish.run_id, wish.holds, wish.proof
    FROM wish JOIN runs ON runs.id = wish.run_id JOIN tasks ON tasks.id = runs.task_id
    ORDER BY tasks.id
    FOR UPDATE OF tasks
), started AS (
    UPDATE runs SET
        state = 'running', attempt = runs.attempt + 1, started_at = coalesce(runs.started_at, :now), progress = NULL,
        worker = :worker, epoch = :epoch::integer, lease_until = :until, reserved = locked.holds, token = locked.proof
    FROM locked
    WHERE runs.id = locked.run_id AND (runs.state = 'ready') IS TRUE AND NOT runs.cancel_requested
        AND NOT locked.paused AND (:actions::jsonb IS NULL OR :actions::jsonb ? locked.action)
        AND (locked.deadline_type <> 'hard' OR runs.drop_at IS NULL OR runs.drop_at > :now)
        AND (locked.proof IS NULL OR locked.needs = '{{}}' OR NOT EXISTS (
            SELECT FROM jsonb_each_text(locked.needs) AS need
            WHERE coalesce((locked.holds->>need.key)::float, 0) < need.value::float))
    RETURNING {_columns("locked", TASK_FIELDS, "tasks_")}, {_columns("runs", RUN_FIELDS, "runs_")}, locked.followed
), tried AS (
    INSERT INTO attempts (run_id, number, worker, started_at)
    SELECT runs_id, runs_attempt, :worker, :now FROM started
), logged AS (
    INSERT INTO events (tenant, task_id, run_id, seq, at, kind, actor, from_state, to_state, attempt)
    SELECT
        runs_tenant, runs_task_id, runs_id,
        (SELECT coalesce(max(seq), 0) FROM events WHERE events.task_id = runs_task_id)
            + row_number() OVER (PARTITION BY runs_task_id ORDER BY runs_id),
        :now, 'started', :worker, 'ready', 'running', runs_attempt
    FROM started
)
SELECT * FROM started
"""  # nosec B608 # noqa: S608 - names of columns
)


def _making_ready(move: Update) -> Select[Any]:
    """Return the statement that makes runs ready with their events; it returns how many were.

    `due` holds their ids and their previous state. The caller has locked their tasks.
    """
    due = few(recordset({"run_id": runs.c.id.type, "was": runs.c.state.type}, "due", "due"))
    of_run = [runs.c.id, runs.c.task_id, runs.c.tenant, runs.c.attempt]
    moved = move.where(runs.c.id == due.c.run_id).returning(*of_run, due.c.was).cte("moved")
    last = select(func.coalesce(func.max(events.c.seq), 0)).where(events.c.task_id == moved.c.task_id)
    nth = func.row_number().over(partition_by=moved.c.task_id, order_by=moved.c.id)
    values = {
        "tenant": moved.c.tenant,
        "task_id": moved.c.task_id,
        "run_id": moved.c.id,
        "seq": last.correlate(moved).scalar_subquery() + nth,
        "at": _NOW,
        "kind": literal(EventKind.READY, events.c.kind.type),
        "actor": literal(DUETIME_ACTOR, events.c.actor.type),
        "from_state": moved.c.was,
        "to_state": literal(State.READY, events.c.to_state.type),
        "attempt": func.nullif(moved.c.attempt, 0),
    }
    added = insert(events).from_select(list(values), select(*values.values())).cte("logged")
    return select(func.count(moved.c.id)).add_cte(added)


_READER = RowReader([*TASK_FIELDS, *RUN_FIELDS])
_MAKE_READY_AT_ONCE = _making_ready(MAKE_READY)
_RUNNING = TASK_AND_RUN.add_columns(runs.c.token).where(
    among(runs.c.id), (runs.c.state == State.RUNNING).is_(true()), runs.c.worker == bindparam("by_worker")
)


def move_to_ready(connection: Connection, found: Sequence[Row[Any]], now: datetime) -> None:
    given = [{"run_id": row.id, "was": row.state} for row in found]
    exactly(len(found), connection.execute(_MAKE_READY_AT_ONCE, {"due": given, "now": now}).scalar_one())


def start(
    connection: Connection,
    starts: Sequence[Start],
    terms: StartTerms,
    now: datetime,
    *,
    may_be_stored: bool = False,
) -> list[Claim]:
    """Start runs that may; `may_be_stored`: those that an earlier try started count as started."""
    check_epoch(connection, terms.epoch)
    if not starts:
        return []
    lock_tasks_of(connection, [wish.run_id for wish in starts])
    mine = _mine(connection, starts, terms.worker) if may_be_stored else []
    left = [wish for wish in starts if wish.run_id not in {claim.run.id for claim in mine}]
    return mine + at_once(connection, left, terms, now)


def stored_starts(connection: Connection, starts: Sequence[Start], worker: str) -> list[Claim]:
    """Return the claims of those starts that are stored, behind the locks of any that may yet be."""
    lock_tasks_of(connection, [wish.run_id for wish in starts])
    return _mine(connection, starts, worker)


def at_once(connection: Connection, starts: Sequence[Start], terms: StartTerms, now: datetime) -> list[Claim]:
    """Start runs by one statement."""
    wanted = {wish.run_id: wish for wish in starts}
    values = {
        "wishes": encode([[wish.run_id, dict(wish.reserved) or None, wish.token or None] for wish in starts]),
        "most": str(len(starts)),
        "actions": None if terms.actions is None else encode(list(terms.actions)),
        "worker": terms.worker,
        "epoch": None if terms.epoch is None else str(terms.epoch),
        "now": instant_text(now),
        "until": instant_text(now + terms.lease),
    }
    rows = map(_READER.read, _START.rows(connection, values))
    found = [(*task_and_run(row), row[-1]) for row in rows]
    return [held_claim(task, run, wanted[run.id], terms.worker, followed=followed) for task, run, followed in found]


def _mine(connection: Connection, starts: Sequence[Start], worker: str) -> list[Claim]:
    wanted = {(wish.run_id, wish.token): wish for wish in starts}
    run_ids = [wish.run_id for wish in starts]
    rows = unreadable.rows(connection, _RUNNING, {"run_ids": run_ids, "by_worker": worker})
    found = [(*task_and_run(row), row.token) for row in rows]
    claimed = [(task, run, wanted.get((run.id, token))) for task, run, token in found]
    return [held_claim(task, run, wish, worker) for task, run, wish in claimed if wish is not None]
