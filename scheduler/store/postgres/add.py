"""PostgreSQL: add a task with its key, run, labels and event by one statement; a repeated call needs a second one.

The key decides. The first insert of a key makes the task; any other insert waits for its commit, adds nothing, and
reads the task of the key. The same statement takes an expired key over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.records import Added, NewTask
from duetime.scheduler.store.postgres import add_one, known_keys
from duetime.scheduler.store.schema.rows import (
    CURRENT,
    LABEL_VALUES,
    NEW_RUN_VALUES,
    TASK_VALUES,
    label_rows,
    new_run_values,
    task_values,
)
from duetime.scheduler.store.schema.tables import events, labels, runs, tasks
from duetime.scheduler.store.schema.tables import keys as key_table
from duetime.scheduler.store.schema.types import Instant
from duetime.scheduler.store.sql.recordset import Document, constants, with_columns
from duetime.scheduler.store.statements import event_log, idempotency
from duetime.scheduler.store.statements.idempotency import KEY_KEPT_AFTER_END, name_of
from duetime.scheduler.store.statements.task_list import SIMILAR
from duetime.scheduler.task import State, TaskRecord
from sqlalchemy import (
    CTE,
    ColumnElement,
    Connection,
    Dialect,
    Select,
    Table,
    TableValuedAlias,
    and_,
    bindparam,
    column,
    func,
    literal_column,
    null,
    or_,
    select,
)
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.sql.compiler import SQLCompiler

_MAX_KEY_LOOKUPS = 3
"""Tries of an add, since a key may expire between the two statements."""

_VALUES: Mapping[Table, Sequence[str]] = {
    tasks: TASK_VALUES,
    runs: NEW_RUN_VALUES,
    labels: LABEL_VALUES,
    events: ("seq", *event_log.VALUES),
    key_table: tuple(column.name for column in key_table.c),
}
_NOW, _CUTOFF = bindparam("now", type_=Instant()), bindparam("cutoff", type_=Instant())


def store_new(
    connection: Connection,
    items: Sequence[NewTask],
    told: Sequence[event_log.EventValues],
    *,
    now: datetime,
    twins: bool,
) -> dict[str, Added]:
    """Store new tasks; return the results by the ids of the items."""
    answers: dict[str, Added] = {}
    left = list(items)
    for _ in range(_MAX_KEY_LOOKUPS):
        answers |= _inserted(connection, left, told, now=now, twins=twins)
        left = [item for item in left if item.task.id not in answers]
        if left:
            known = known_keys.known(connection, left, now)
            found = {item.task.id: known[name_of(item)] for item in left if name_of(item) in known}
            answers |= {task_id: Added(it, created=it.task.id == task_id) for task_id, it in found.items()}
            left = [item for item in left if item.task.id not in answers]
        if not left:
            return answers
    raise StoreUnavailable("Other calls used the same idempotency_key at this moment. Nothing was stored; try again.")


def _inserted(
    connection: Connection,
    items: Sequence[NewTask],
    told: Sequence[event_log.EventValues],
    *,
    now: datetime,
    twins: bool,
) -> dict[str, Added]:
    if len(items) == 1 and add_one.is_first_run(items[0].run):
        return add_one.insert(connection, items[0], told[0], now=now, twins=twins)
    wanted = {item.task.id: item for item in items}
    plan = _planned(connection.dialect, twins)
    given: dict[str, Sequence[Mapping[str, Any]]] = {
        tasks.name: [task_values(item.task) for item in items],
        runs.name: [new_run_values(item.task, item.run) for item in items],
        labels.name: label_rows(item.task for item in items),
        events.name: [
            {**entry, "seq": entry["nth"]} for entry in event_log.numbered(told) if entry["task_id"] in wanted
        ],
        key_table.name: sorted(idempotency.rows(items), key=lambda row: (row["tenant"], row["key"])),
    }
    parameters = {**plan.constants} | {name: plan.documents[name].written(rows) for name, rows in given.items()}
    parameters |= {"now": now, "cutoff": now - KEY_KEPT_AFTER_END}
    made = connection.exec_driver_sql(plan.sql, parameters).all()
    return {
        task_id: Added(TaskRecord(wanted[task_id].task, wanted[task_id].run), created=True, twin=twin)
        for task_id, twin in made
    }


class _AddStatement(NamedTuple):
    """The SQL text, and how to write the rows of each table."""

    sql: str
    documents: Mapping[str, Document]
    constants: Mapping[str, Any]


@lru_cache(maxsize=8)
def _planned(dialect: Dialect, twins: bool) -> _AddStatement:
    compiled = _statement(twins).compile(dialect=dialect)
    assert isinstance(compiled, SQLCompiler)
    documents = {
        table.name: Document.of({name: table.c[name].type for name in names}, dialect)
        for table, names in _VALUES.items()
    }
    return _AddStatement(compiled.string, documents, constants(compiled, dialect))


def _statement(twins: bool) -> Select[Any]:
    claimed = _claimed()
    asked, its_run, of_keys = _given(tasks), _given(runs), _given(key_table)
    new = (
        select(
            asked.c.id,
            asked.c.tenant,
            asked.c.owner,
            asked.c.title_folded,
            its_run.c.twin_hash,
            its_run.c.scheduled_for,
        )
        .join_from(asked, its_run, its_run.c.task_id == asked.c.id)
        .where(asked.c.id.not_in(select(of_keys.c.task_id)) | asked.c.id.in_(select(claimed.c.task_id)))
        .cte("new")
    )
    inserted = [_inserting(table, names, new) for table, names in _VALUES.items() if table is not key_table]
    return select(new.c.id, _twin(new) if twins else null()).add_cte(*inserted)


def _given(table: Table) -> TableValuedAlias:
    """Return the rows of the parameter named after a table; a missing field is NULL."""
    row: ColumnElement[Any] = literal_column(f"NULL::{table.name}")
    rows = func.jsonb_populate_recordset(row, bindparam(table.name, type_=JSONB()))
    return rows.table_valued(*(column(name, table.c[name].type) for name in _VALUES[table]), name=f"given_{table.name}")


def _inserting(table: Table, names: Sequence[str], new: CTE) -> CTE:
    given = _given(table)
    of_task = given.c.id if table is tasks else given.c.task_id
    rows = select(*(given.c[name] for name in names)).where(of_task.in_(select(new.c.id)))
    return insert(table).from_select(list(names), rows).cte(f"new_{table.name}")


def _claimed() -> CTE:
    """Insert the keys; a key that holds stays as it is and is not returned."""
    names, given = _VALUES[key_table], _given(key_table)
    statement = insert(key_table).from_select(list(names), select(*(given.c[name] for name in names)))
    taken_over = {name: statement.excluded[name] for name in names if name not in key_table.primary_key}
    statement = statement.on_conflict_do_update(index_elements=["tenant", "key"], set_=taken_over, where=_is_free())
    return statement.returning(key_table.c.task_id).cte("claimed")


def _is_free() -> ColumnElement[bool]:
    """Whether the existing key has expired: the opposite of `idempotency.holds`."""
    its_task: ColumnElement[str] = literal_column("idempotency_keys.task_id")  # a column object would not be correlated
    its_run = select(runs.c.state).where(runs.c.task_id == its_task, CURRENT)
    ended_at = select(runs.c.ended_at).where(runs.c.task_id == its_task, CURRENT)
    return or_(
        and_(key_table.c.derived, its_run.scalar_subquery() == State.CANCELLED),
        key_table.c.expires_at <= _NOW,
        and_(key_table.c.expires_at.is_(None), ended_at.scalar_subquery() <= _CUTOFF),
    )


def _twin(new: CTE) -> ColumnElement[str]:
    same = {
        "of": new.c.tenant,
        "by": new.c.owner,
        "named": new.c.title_folded,
        "alike": new.c.twin_hash,
        "at": new.c.scheduled_for,
    }
    return with_columns(SIMILAR, same).correlate(new).scalar_subquery()
