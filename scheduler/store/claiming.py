"""PostgreSQL: start runs whose tasks are locked, with their attempts and events, in one statement."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from duetime.scheduler.events import EventKind
from duetime.scheduler.store.models import attempts, events, runs, tasks
from duetime.scheduler.store.recordsets import few, recordset
from duetime.scheduler.store.rows import RUN, TASK
from duetime.scheduler.store.types import Instant
from duetime.scheduler.store.values import Start
from duetime.scheduler.task import State
from sqlalchemy import (
    CTE,
    ColumnElement,
    Connection,
    Float,
    Integer,
    Row,
    Select,
    Subquery,
    Text,
    bindparam,
    cast,
    func,
    insert,
    literal,
    null,
    or_,
    select,
    update,
)

_NOW = bindparam("now", type_=Instant())
_WORKER = bindparam("by_worker", type_=Text())
_WISHES = {"run_id": runs.c.id.type, "holds": runs.c.reserved.type, "proof": runs.c.token.type}


def statement(*startable: ColumnElement[bool]) -> Select[Any]:
    """Return the statement for runs of which these conditions hold; its rows are those of TASK and RUN."""
    wish = few(recordset(_WISHES, "wishes", "wish"))
    values = {
        "state": State.RUNNING,
        "attempt": runs.c.attempt + 1,
        "started_at": func.coalesce(runs.c.started_at, _NOW),
        "progress": null(),
        "worker": _WORKER,
        "epoch": bindparam("by_epoch", type_=Integer()),
        "lease_until": bindparam("until", type_=Instant()),
        "reserved": wish.c.holds,
        "token": wish.c.proof,
    }
    theirs = (runs.c.id == wish.c.run_id, tasks.c.id == runs.c.task_id, _has_reserved(wish))
    moved = update(runs).where(*theirs, *startable).values(values)
    columns = [column.label(f"{column.table.name}_{column.name}") for column in (*TASK, *RUN)]
    started = moved.returning(*columns).cte("started")
    return select(started).add_cte(_attempts(started), _events(started))


def _has_reserved(wish: Subquery) -> ColumnElement[bool]:
    """Whether a queue has reserved what the task needs now, as `starting` asks of runs that it has read."""
    need = func.jsonb_each_text(tasks.c.needs).table_valued("key", "value", name="need")
    reserved = func.coalesce(cast(wish.c.holds.op("->>", return_type=Text())(need.c.key), Float()), 0.0)
    short = select(literal(1)).select_from(need).where(reserved < cast(need.c.value, Float())).correlate(tasks, wish)
    return or_(wish.c.proof.is_(None), tasks.c.needs == literal({}, tasks.c.needs.type), ~short.exists())


def _attempts(started: CTE) -> CTE:
    values = {"run_id": started.c.runs_id, "number": started.c.runs_attempt, "worker": _WORKER, "started_at": _NOW}
    return insert(attempts).from_select(list(values), select(*values.values())).cte("tried")


def _events(started: CTE) -> CTE:
    """Write the events as `journal.append` does: each with the next number of its task."""
    of_task = started.c.runs_task_id
    last = select(func.coalesce(func.max(events.c.seq), 0)).where(events.c.task_id == of_task)
    nth = func.row_number().over(partition_by=of_task, order_by=started.c.runs_id)
    values = {
        "tenant": started.c.runs_tenant,
        "task_id": of_task,
        "run_id": started.c.runs_id,
        "seq": last.correlate(started).scalar_subquery() + nth,
        "at": _NOW,
        "kind": literal(EventKind.STARTED, events.c.kind.type),
        "actor": _WORKER,
        "from_state": literal(State.READY, events.c.from_state.type),
        "to_state": literal(State.RUNNING, events.c.to_state.type),
        "attempt": started.c.runs_attempt,
    }
    return insert(events).from_select(list(values), select(*values.values())).cte("told")


def start(
    connection: Connection,
    starting: Select[Any],
    wanted: Collection[Start],
    *,
    worker: str,
    epoch: int | None,
    now: datetime,
    until: datetime,
) -> Sequence[Row[Any]]:
    wishes = [
        {"run_id": wish.run_id, "holds": dict(wish.reserved) or None, "proof": wish.token or None} for wish in wanted
    ]
    values = {"wishes": wishes, "by_worker": worker, "by_epoch": epoch, "now": now, "until": until}
    return connection.execute(starting, values).all()
