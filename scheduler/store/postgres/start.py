"""PostgreSQL: lock tasks and start their runs, with attempts and events, by one statement.

It may be a transaction of its own, although its snapshot is older than the locks it waits for. PostgreSQL locks and
updates the newest version of a row that still meets the conditions. Other writes of a concurrent transaction stay
invisible: a taken event number then rolls everything back, and a run that became ready later is left out. In both cases
`statements.start` repeats the work behind the locks, where everything is visible.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from duetime.scheduler.events import EventKind
from duetime.scheduler.records import Claim, Start
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.rows import RUN, TASK, task_and_run
from duetime.scheduler.store.schema.tables import attempts, events, runs, tasks
from duetime.scheduler.store.schema.types import Instant
from duetime.scheduler.store.sql.locks import among, check_epoch, exactly, lock_tasks_of
from duetime.scheduler.store.sql.recordset import few, recordset
from duetime.scheduler.store.statements import event_log
from duetime.scheduler.store.statements.read import TASK_AND_RUN
from duetime.scheduler.store.statements.start import MAKE_READY, Columns, Conditions, held_claim, may_start
from duetime.scheduler.task import State
from sqlalchemy import (
    CTE,
    ColumnElement,
    Connection,
    Float,
    Integer,
    Row,
    Select,
    Text,
    Update,
    any_,
    bindparam,
    cast,
    func,
    insert,
    literal,
    null,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY

_NOW = bindparam("now", type_=Instant())
_WORKER = bindparam("by_worker", type_=Text())
_WISHES = {"run_id": runs.c.id.type, "holds": runs.c.reserved.type, "proof": runs.c.token.type}


def _statement(may_start: Callable[[Columns], Conditions]) -> Select[Any]:
    """Return the statement for runs whose tasks meet these conditions; it returns columns TASK and RUN."""
    locked = _locked()
    values = {
        "state": State.RUNNING,
        "attempt": runs.c.attempt + 1,
        "started_at": func.coalesce(runs.c.started_at, _NOW),
        "progress": null(),
        "worker": _WORKER,
        "epoch": bindparam("by_epoch", type_=Integer()),
        "lease_until": bindparam("until", type_=Instant()),
        "reserved": locked.c.holds,
        "token": locked.c.proof,
    }
    moved = update(runs).where(runs.c.id == locked.c.run_id, *may_start(locked.c), _has_reserved(locked)).values(values)
    columns = [column.label(f"{column.table.name}_{column.name}") for column in RUN]
    of_task = [locked.c[column.name].label(f"tasks_{column.name}") for column in TASK]
    started = moved.returning(*of_task, *columns).cte("started")
    return select(started).add_cte(_attempts(started), _started(started))


def _locked() -> CTE:
    """Lock the tasks of the wanted runs, always in the same order, which avoids deadlocks."""
    wish = few(recordset(_WISHES, "wishes", "wish"))
    whose = wish.join(runs, runs.c.id == wish.c.run_id).join(tasks, tasks.c.id == runs.c.task_id)
    found = select(*TASK, wish.c.run_id, wish.c.holds, wish.c.proof).select_from(whose)
    return found.order_by(tasks.c.id).with_for_update(of=tasks).cte("locked")


def _has_reserved(locked: CTE) -> ColumnElement[bool]:
    """Whether the queue reserved the current needs of the task, as `statements.start` checks."""
    need = func.jsonb_each_text(locked.c.needs).table_valued("key", "value", name="need")
    reserved = func.coalesce(cast(locked.c.holds.op("->>", return_type=Text())(need.c.key), Float()), 0.0)
    short = select(literal(1)).select_from(need).where(reserved < cast(need.c.value, Float())).correlate(locked)
    return or_(locked.c.proof.is_(None), locked.c.needs == literal({}, tasks.c.needs.type), ~short.exists())


def _attempts(started: CTE) -> CTE:
    values = {"run_id": started.c.runs_id, "number": started.c.runs_attempt, "worker": _WORKER, "started_at": _NOW}
    return insert(attempts).from_select(list(values), select(*values.values())).cte("tried")


def _started(started: CTE) -> CTE:
    ready = literal(State.READY, events.c.from_state.type)
    return _told(started, EventKind.STARTED, actor=_WORKER, move=(ready, State.RUNNING))


def _told(moved: CTE, kind: EventKind, *, actor: ColumnElement[str], move: tuple[ColumnElement[State], State]) -> CTE:
    """Insert the events as `event_log.append` does: each with the next number of its task."""
    before, after = move
    of_task = moved.c.runs_task_id
    last = select(func.coalesce(func.max(events.c.seq), 0)).where(events.c.task_id == of_task)
    nth = func.row_number().over(partition_by=of_task, order_by=moved.c.runs_id)
    values = {
        "tenant": moved.c.runs_tenant,
        "task_id": of_task,
        "run_id": moved.c.runs_id,
        "seq": last.correlate(moved).scalar_subquery() + nth,
        "at": _NOW,
        "kind": literal(kind, events.c.kind.type),
        "actor": actor,
        "from_state": before,
        "to_state": literal(after, events.c.to_state.type),
        "attempt": func.nullif(moved.c.runs_attempt, 0),
    }
    return insert(events).from_select(list(values), select(*values.values())).cte("told")


def _making_ready(move: Update) -> Select[Any]:
    """Return the statement that makes runs ready with their events; it returns how many were.

    `due` holds their ids and their previous state. The caller has locked their tasks.
    """
    due = few(recordset({"run_id": runs.c.id.type, "was": runs.c.state.type}, "due", "due"))
    names = ("id", "task_id", "tenant", "attempt")
    of_run = [runs.c[name].label(f"runs_{name}") for name in names]
    moved = move.where(runs.c.id == due.c.run_id).returning(*of_run, due.c.was).cte("moved")
    itself = literal(event_log.ITSELF, events.c.actor.type)
    told = _told(moved, EventKind.READY, actor=itself, move=(moved.c.was, State.READY))
    return select(func.count(moved.c.runs_id)).add_cte(told)


def _started_rows(
    connection: Connection, starting: Select[Any], wanted: Collection[Start], values: Mapping[str, Any]
) -> Sequence[Row[Any]]:
    wishes = [
        {"run_id": wish.run_id, "holds": dict(wish.reserved) or None, "proof": wish.token or None} for wish in wanted
    ]
    return connection.execute(starting, {"wishes": wishes, **values}).all()


def _known_may_start(task: Columns) -> Conditions:
    return (*may_start(task), task.action == any_(bindparam("actions", type_=ARRAY(Text))))


_MAKE_READY_AT_ONCE = _making_ready(MAKE_READY)
_START_AT_ONCE = _statement(may_start)
_START_KNOWN_AT_ONCE = _statement(_known_may_start)
_RUNNING = TASK_AND_RUN.add_columns(runs.c.token).where(
    among(runs.c.id), (runs.c.state == State.RUNNING).is_(true()), runs.c.worker == bindparam("by_worker")
)


def move_to_ready(connection: Connection, found: Sequence[Row[Any]], now: datetime) -> None:
    given = [{"run_id": row.id, "was": row.state} for row in found]
    exactly(len(found), connection.execute(_MAKE_READY_AT_ONCE, {"due": given, "now": now}).scalar_one())


def start(
    connection: Connection,
    starts: Sequence[Start],
    *,
    worker: str,
    epoch: int | None,
    now: datetime,
    lease: timedelta,
    actions: Collection[str] | None = None,
    again: bool = False,
) -> list[Claim]:
    """Start runs that may; `again`: those that run by the same wish already count as started."""
    check_epoch(connection, epoch)
    if not starts:
        return []
    wanted = {wish.run_id: wish for wish in starts}
    lock_tasks_of(connection, list(wanted))
    mine = _mine(connection, wanted, worker) if again else []
    left = [wish for wish in starts if wish.run_id not in {claim.run.id for claim in mine}]
    return mine + at_once(connection, left, worker=worker, epoch=epoch, now=now, lease=lease, actions=actions)


def at_once(
    connection: Connection,
    starts: Sequence[Start],
    *,
    worker: str,
    epoch: int | None,
    now: datetime,
    lease: timedelta,
    actions: Collection[str] | None = None,
) -> list[Claim]:
    """Start runs by one statement."""
    wanted = {wish.run_id: wish for wish in starts}
    values: dict[str, Any] = {"by_worker": worker, "by_epoch": epoch, "now": now, "until": now + lease}
    if actions is None:
        rows = _started_rows(connection, _START_AT_ONCE, starts, values)
    else:
        rows = _started_rows(connection, _START_KNOWN_AT_ONCE, starts, {**values, "actions": list(actions)})
    return [held_claim(task, run, wanted[run.id], worker) for task, run in map(task_and_run, rows)]


def _mine(connection: Connection, wanted: Mapping[str, Start], worker: str) -> list[Claim]:
    rows = unreadable.rows(connection, _RUNNING, {"run_ids": list(wanted), "by_worker": worker}, runs.c.id)
    found = [(*task_and_run(row), row.token) for row in rows]
    return [
        held_claim(task, run, wanted[run.id], worker) for task, run, token in found if token == wanted[run.id].token
    ]
