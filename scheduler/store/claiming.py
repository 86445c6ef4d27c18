"""PostgreSQL: lock tasks and start their runs, with attempts and events, in one statement.

It may be a transaction of its own, although what it sees is older than the locks it waits for: a task is locked, and a
run updated, as the newest of its row that still meets the conditions. What else such a transaction wrote is seen late:
a number of an event that is taken refuses the whole, a run that was not ready before is left out. Then it is said again
behind the locks (`starting`), where everything is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
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
from sqlalchemy.sql.base import ReadOnlyColumnCollection

Columns = ReadOnlyColumnCollection[str, Any]
Conditions = Sequence[ColumnElement[bool]]

_NOW = bindparam("now", type_=Instant())
_WORKER = bindparam("by_worker", type_=Text())
_WISHES = {"run_id": runs.c.id.type, "holds": runs.c.reserved.type, "proof": runs.c.token.type}


def statement(may_start: Callable[[Columns], Conditions]) -> Select[Any]:
    """Return the statement for runs that meet these conditions of a task; its rows are those of TASK and RUN."""
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
    return select(started).add_cte(_attempts(started), _events(started))


def _locked() -> CTE:
    """Lock the tasks of the wanted runs, always in the same order, as everyone else does."""
    wish = few(recordset(_WISHES, "wishes", "wish"))
    whose = wish.join(runs, runs.c.id == wish.c.run_id).join(tasks, tasks.c.id == runs.c.task_id)
    found = select(*TASK, wish.c.run_id, wish.c.holds, wish.c.proof).select_from(whose)
    return found.order_by(tasks.c.id).with_for_update(of=tasks).cte("locked")


def _has_reserved(locked: CTE) -> ColumnElement[bool]:
    """Whether a queue has reserved what the task needs now, as `starting` asks of runs that it has read."""
    need = func.jsonb_each_text(locked.c.needs).table_valued("key", "value", name="need")
    reserved = func.coalesce(cast(locked.c.holds.op("->>", return_type=Text())(need.c.key), Float()), 0.0)
    short = select(literal(1)).select_from(need).where(reserved < cast(need.c.value, Float())).correlate(locked)
    return or_(locked.c.proof.is_(None), locked.c.needs == literal({}, tasks.c.needs.type), ~short.exists())


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
