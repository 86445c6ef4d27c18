"""Deletes selected rows with all that goes with them, in one short transaction for each batch.

A transaction looks again at what it deletes: what was changed since it was selected stays, and on PostgreSQL also what
another transaction has locked. A task or run of very many rows is deleted in several transactions, children
first, so that none of them is long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from duetime.scheduler.history.retention import RetentionKind, RetentionRule
from duetime.scheduler.store.audit import removals
from duetime.scheduler.store.retention import row_conditions, selection
from duetime.scheduler.store.retention.last_events import last_events
from duetime.scheduler.store.retention.parts import RowsOfTable, itself, one_of, parts
from duetime.scheduler.store.retention.preview import CountedRows
from duetime.scheduler.store.retention.row_conditions import TABLES, RowCondition
from duetime.scheduler.store.retention.selection import RowKey, Selected
from duetime.scheduler.store.schema.tables.chains import chain_steps, chains, spawned_tasks
from duetime.scheduler.store.schema.tables.events import events
from duetime.scheduler.store.schema.tables.tasks import labels, runs, tasks
from sqlalchemy import Connection, Select, Table, and_, bindparam, delete, exists, func, select, update

RowCounts = Counter[str]
"""Rows by table."""

MAX_ROWS_TOGETHER = 300
"""Rows that go with one row above which they are deleted in several transactions."""

_UNLABEL = delete(labels).where(
    labels.c.tenant == bindparam("of_tenant"),
    labels.c.label == bindparam("of_label"),
    labels.c.task_id == bindparam("of_task"),
)
_FORGET_SPAWNED = delete(spawned_tasks).where(~exists().where(tasks.c.id == spawned_tasks.c.task_id))
_CHANGES_HISTORY = frozenset({RetentionKind.RUNS, RetentionKind.EVENTS})


def delete_batch(
    connection: Connection, rule: RetentionRule, before: datetime, rows: Sequence[Selected], now: datetime
) -> tuple[RowCounts, bool]:
    """Delete what of these rows may still go; return how many rows went, and whether some are left for another call.

    Rows are left of a single row that has very many.
    """
    large = len(rows) == 1 and rows[0].weight > MAX_ROWS_TOGETHER
    keys = _still_due(connection, rule, before, [row.key for row in rows], messages=not large)
    keys = _unchanged(connection, rows, keys)
    if not keys:
        return RowCounts(), False
    if rule.kind in _CHANGES_HISTORY:
        _note_history(connection, rule.kind, keys)
    if large:
        found = _first_part(connection, rule.kind, keys, now)
        if found:
            return found, True
    if rule.kind is RetentionKind.TASKS:
        _delete_labels(connection, keys)
    found = RowCounts()
    for table, condition in parts(rule.kind, keys):
        found[table.name] += _delete(connection, table, condition, now)
    return +found, False


def forget_spawned(connection: Connection) -> None:
    """Delete rows of spawned tasks that are gone: processes of an older version delete these tasks without them."""
    connection.execute(_FORGET_SPAWNED)


def _delete(connection: Connection, table: Table, condition: RowCondition, now: datetime) -> int:
    """Delete rows; of events the audit chain has to know that they went by a rule."""
    if table is events:
        removals.note(connection, condition, now)
    return connection.execute(delete(table).where(condition)).rowcount


def count(connection: Connection, kind: RetentionKind, keys: Sequence[RowKey], counted: CountedRows) -> RowCounts:
    """Return how many rows the deletion of these would delete, without those that were counted already."""
    found = RowCounts()
    for table, condition in parts(kind, keys):
        rows = connection.execute(select(*table.primary_key).where(condition)).all()
        found[table.name] += counted.add(table.name, rows)
    if kind is RetentionKind.TASKS:
        found[chains.name] += counted.add(chains.name, _left_chains(connection, keys, counted))
    return +found


def _left_chains(connection: Connection, keys: Sequence[RowKey], counted: CountedRows) -> list[RowKey]:
    """Return the chains of these tasks of which every step was counted, also with tasks before these."""
    ids = [task_id for (task_id,) in keys]
    named = select(chain_steps.c.chain_id).where(chain_steps.c.task_id.in_(ids))
    steps = select(chain_steps.c.chain_id, chain_steps.c.task_id).where(chain_steps.c.chain_id.in_(named))
    rows = connection.execute(steps).all()
    staying = {row.chain_id for row in rows if not counted.has(tasks.name, (row.task_id,))}
    return [(chain_id,) for chain_id in {row.chain_id for row in rows} - staying]


def _still_due(
    connection: Connection, rule: RetentionRule, before: datetime, keys: Sequence[RowKey], *, messages: bool
) -> list[RowKey]:
    """Lock the selected rows, and return those of them that nothing needs by now."""
    if rule.kind is RetentionKind.TASKS:
        locked = _locked(connection, select(tasks.c.id).where(tasks.c.id.in_([task_id for (task_id,) in keys])))
        ids = [str(task_id) for (task_id,) in locked]
        return [(task_id,) for task_id in selection.old_tasks(connection, rule, before, ids, messages=messages)]
    where = itself(rule.kind, keys)
    if rule.kind in _CHANGES_HISTORY:  # the lock of a task covers its runs and events
        where = and_(where, _of_locked_tasks(connection, TABLES[rule.kind], where))
    key = list(TABLES[rule.kind].primary_key)
    return _locked(connection, select(*key).where(where, *row_conditions.conditions(rule, before)))


def _unchanged(connection: Connection, rows: Sequence[Selected], keys: Sequence[RowKey]) -> list[RowKey]:
    """Return the keys of locked tasks that have had no event since they were selected; of other kinds all.

    Not every event changes its task: a change of an ended chain is an event of its first step.
    """
    known = {row.key: row.last_event for row in rows if row.last_event is not None}
    newest = last_events(connection, [task_id for (task_id,) in known]) if known else {}
    return [key for key in keys if key not in known or newest.get(key[0], 0) <= known[key]]


def _locked(connection: Connection, statement: Select[Any]) -> list[RowKey]:
    return [tuple(row) for row in connection.execute(statement.with_for_update(skip_locked=True))]


def _of_locked_tasks(connection: Connection, table: Table, where: RowCondition) -> RowCondition:
    theirs = select(table.c.task_id).where(where)
    ids = [task_id for (task_id,) in _locked(connection, select(tasks.c.id).where(tasks.c.id.in_(theirs)))]
    return table.c.task_id.in_(ids)


def _note_history(connection: Connection, kind: RetentionKind, keys: Sequence[RowKey]) -> None:
    """Note in each task from which event on its history is whole, and that runs of it are gone."""
    table = TABLES[kind]
    number = events.c.seq + 1 if kind is RetentionKind.EVENTS else 1
    reached = select(table.c.task_id, func.max(number)).where(itself(kind, keys)).group_by(table.c.task_id)
    known = tasks.c.history_from
    raise_it = update(tasks).where(
        tasks.c.id == bindparam("of_task"), known.is_(None) | (known < bindparam("number", type_=known.type))
    )
    found = [{"of_task": task_id, "number": first} for task_id, first in connection.execute(reached)]
    connection.execute(raise_it.values(history_from=bindparam("number", type_=known.type)), found)


def _delete_labels(connection: Connection, keys: Sequence[RowKey]) -> None:
    statement = select(tasks.c.tenant, tasks.c.id, tasks.c.labels).where(itself(RetentionKind.TASKS, keys))
    found = [
        {"of_tenant": tenant, "of_task": task_id, "of_label": label}
        for tenant, task_id, named in connection.execute(statement)
        for label in dict.fromkeys(named)
    ]
    if found:
        connection.execute(_UNLABEL, found)


def _first_part(connection: Connection, kind: RetentionKind, keys: Sequence[RowKey], now: datetime) -> RowCounts:
    """Delete a part of what goes with a single row: of the first table that has any. Its newest rows go last."""
    if kind is RetentionKind.TASKS:
        _cut_history(connection, keys)
    for table, condition in _divisible(kind, keys):
        key = list(table.primary_key)
        first = select(*key).where(condition).order_by(*key).limit(MAX_ROWS_TOGETHER)
        ids = [tuple(row) for row in connection.execute(first)]
        if ids:
            return RowCounts({table.name: _delete(connection, table, one_of(key, ids), now)})
    return RowCounts()


def _divisible(kind: RetentionKind, keys: Sequence[RowKey]) -> Iterable[RowsOfTable]:
    """Return the parts that need not go together: all but the row itself, and the current run of a task."""
    for table, condition in parts(kind, keys)[:-1]:
        yield table, and_(condition, ~runs.c.current) if table is runs else condition


def _cut_history(connection: Connection, keys: Sequence[RowKey]) -> None:
    """Note that the history of a task is no longer whole while its events go in parts."""
    [(task_id,)] = keys
    last = select(func.max(events.c.seq) + 1).where(events.c.task_id == task_id).scalar_subquery()
    unknown = tasks.c.id == task_id, tasks.c.history_from.is_(None)
    connection.execute(update(tasks).where(*unknown).values(history_from=last))
