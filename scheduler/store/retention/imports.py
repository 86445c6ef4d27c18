"""Stores the rows of an archive again; what is there already stays as it is, so a file can be imported twice."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from duetime.scheduler.errors import Refused
from duetime.scheduler.history.retention import RetentionKind
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.store.audit import removals
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.retention.archive import ArchiveContent
from duetime.scheduler.store.retention.deletion import RowCounts
from duetime.scheduler.store.retention.row_json import TypedRow
from duetime.scheduler.store.schema.constraints import INVARIANTS
from duetime.scheduler.store.schema.rows import LABEL_VALUES
from duetime.scheduler.store.schema.tables.chains import chains
from duetime.scheduler.store.schema.tables.deliveries import deliveries, inbox
from duetime.scheduler.store.schema.tables.events import events
from duetime.scheduler.store.schema.tables.tasks import labels, runs, tasks
from duetime.scheduler.store.text_index import sqlite_index
from sqlalchemy import Column, ColumnElement, Connection, Table, insert, literal_column, select, tuple_
from sqlalchemy.exc import DataError, IntegrityError

MAX_KEYS_ASKED = 500
_NOTHING = "Nothing of this file was stored."


def store(connection: Connection, content: ArchiveContent, tenant: str | None = None) -> tuple[RowCounts, int]:
    """Store what is missing; return the rows that were stored by table, and how many were there.

    A task, or a run, that exists stays as it is, with all that it has. Raises Refused, for the whole file, where a row
    breaks an invariant. So it does where the row's task or run does not exist, is another tenant's, or has not ended.
    """
    wanted = _missing(connection, content)
    _check_ended(wanted.get(runs, []))
    _check_parents(connection, wanted, tenant)
    stored = RowCounts()
    for table, found in wanted.items():
        _insert(connection, table, found)
        stored[table.name] += len(found)
    if wanted.get(tasks):
        _label(connection, wanted[tasks])
    for table, found in wanted.items():
        _check_invariants(connection, table, found)
    if wanted.get(events) and not dialect_of(connection).has_trigram_indexes:
        sqlite_index.add_passed(connection, [row["id"] for row in wanted[events]])
    return +stored, len(content.rows) - stored.total()


def _insert(connection: Connection, table: Table, found: Sequence[TypedRow]) -> None:
    try:
        for group in _insertable(connection, table, found):
            connection.execute(insert(table), group)
    except (IntegrityError, DataError) as error:
        raise Refused(f"The rows of {table.name} do not fit together, or not to what is stored. {_NOTHING}") from error


def _check_ended(found: Sequence[TypedRow]) -> None:
    """Refuse a run that would start: retention archives what has ended."""
    for row in found:
        if row["state"] not in TERMINAL:
            raise Refused(f"The run {row['id'][:40]} is {row['state']}, and an archive has ended runs only. {_NOTHING}")


def _check_invariants(connection: Connection, table: Table, found: Sequence[TypedRow]) -> None:
    """Refuse rows that `duetime doctor --deep` would report."""
    key = events.c.task_id if table is events else next(iter(table.primary_key))
    for part in _parts(sorted({row[key.name] for row in found})):
        for invariant in (each for each in INVARIANTS if each.table == table.name):
            holds: ColumnElement[bool] = literal_column(f"coalesce(({invariant.holds}), false)")
            broken = connection.execute(select(key).where(key.in_(part), ~holds).limit(1)).scalar()
            if broken is not None:
                raise Refused(f"A row of {table.name} ({broken}) {invariant.broken}. {_NOTHING}")


def _missing(connection: Connection, content: ArchiveContent) -> dict[Table, list[TypedRow]]:
    """Return the rows to store, parents first."""
    by_table: dict[Table, list[TypedRow]] = {}
    for table, row in content.rows:
        by_table.setdefault(table, []).append(row)
    if content.kind is RetentionKind.TASKS:
        known = _existing(connection, tasks.c.id, (row["id"] for row in by_table.get(tasks, [])))
        of_known = {row["id"] for row in by_table.get(runs, []) if row["task_id"] in known}
        made = {chains: _new(connection, chains, by_table[chains])} if chains in by_table else {}
        return {**_without(by_table, known, of_known), **made}
    if content.kind is RetentionKind.RUNS:
        known = _existing(connection, runs.c.id, (row["id"] for row in by_table.get(runs, [])))
        return _without(by_table, set(), known)
    return {table: _new(connection, table, found) for table, found in by_table.items()}


def _without(
    by_table: dict[Table, list[TypedRow]], task_ids: set[Any], run_ids: set[Any]
) -> dict[Table, list[TypedRow]]:
    """Return the rows that belong neither to these tasks nor to these runs."""

    def is_new(table: Table, row: TypedRow) -> bool:
        task_id = row["id"] if table is tasks else row.get("task_id")
        run_id = row["id"] if table is runs else row.get("run_id")
        return task_id not in task_ids and (table is events or run_id not in run_ids)

    return {table: [row for row in found if is_new(table, row)] for table, found in by_table.items()}


def _new(connection: Connection, table: Table, found: Sequence[TypedRow]) -> list[TypedRow]:
    """Return the rows that are not there; events are known by their number within a task."""
    key = [events.c.task_id, events.c.seq] if table is events else list(table.primary_key)
    names = [column.name for column in key]
    there: set[tuple[Any, ...]] = set()
    for part in _parts([tuple(row[name] for name in names) for row in found]):
        there.update(tuple(row) for row in connection.execute(select(*key).where(tuple_(*key).in_(part))))
    return [row for row in found if tuple(row[name] for name in names) not in there]


def _check_parents(connection: Connection, rows: dict[Table, list[TypedRow]], tenant: str | None) -> None:
    """Refuse rows without the row that they belong to, and rows that belong to one of another tenant."""
    given = {parent: {row["id"]: row["tenant"] for row in rows.get(parent, [])} for parent in (tasks, runs)}
    given[inbox] = {row["run_id"]: row["tenant"] for row in rows.get(inbox, [])}
    for table, found in rows.items():
        for name, parent, key in _parents_of(table):
            owners = _owners(connection, parent, key, {row[name] for row in found} - given[parent].keys())
            owners |= given[parent]
            for row in found:
                _check_owner(table, row[name], owners.get(row[name]), row.get("tenant", tenant), parent)


def _check_owner(table: Table, named: str, owner: str | None, tenant: str | None, parent: Table) -> None:
    if owner is None:
        raise Refused(
            f"{named[:40]}, which {table.name} belong to, is not in the table {parent.name}. Import the file "
            "that has it first; nothing of this one was stored."
        )
    if tenant is not None and owner != tenant:
        raise Refused(f"{named[:40]}, which {table.name} belong to, is not of the tenant {tenant[:40]!r}. {_NOTHING}")


def _owners(connection: Connection, parent: Table, key: Column[Any], named: Collection[str]) -> dict[str, str]:
    """Return the tenant of each of these rows that there is."""
    found: dict[str, str] = {}
    for part in _parts(list(named)):
        statement = select(key, parent.c.tenant).where(key.in_(part))
        found.update((each, tenant) for each, tenant in connection.execute(statement))
    return found


def _parents_of(table: Table) -> Iterable[tuple[str, Table, Column[Any]]]:
    """Return the tables that the rows of a table belong to; events may outlive their runs."""
    if "task_id" in table.c:
        yield "task_id", tasks, tasks.c.id
    if "run_id" in table.c and table is not events:
        yield ("run_id", inbox, inbox.c.run_id) if table is deliveries else ("run_id", runs, runs.c.id)


def _existing(connection: Connection, column: Column[Any], values: Iterable[Any]) -> set[Any]:
    found: set[Any] = set()
    for part in _parts(list(values)):
        found.update(connection.execute(select(column).where(column.in_(part))).scalars())
    return found


def _parts(values: Sequence[Any]) -> Iterable[Sequence[Any]]:
    return (values[start : start + MAX_KEYS_ASKED] for start in range(0, len(values), MAX_KEYS_ASKED))


def _insertable(connection: Connection, table: Table, found: Sequence[TypedRow]) -> list[list[TypedRow]]:
    """Return rows in groups of the same columns.

    An event that retention deleted here keeps its id and is no news. In another database it is a new one, for the
    audit chain to seal. A number that is free there may be one that the chain has passed.
    """
    if table is not events:
        return [list(found)] if found else []
    taken = _existing(connection, events.c.id, (row["id"] for row in found))
    removed = {tenant: removals.of(connection, tenant) for tenant in {row["tenant"] for row in found}}
    kept, added = list[TypedRow](), list[TypedRow]()
    for row in found:
        if row["id"] not in taken and removed[row["tenant"]].record_of(row["id"]):
            kept.append({**row, "tx": None})
        else:
            added.append({name: value for name, value in row.items() if name not in ("id", "tx")})
    return [group for group in (kept, added) if group]


def _label(connection: Connection, found: Collection[TypedRow]) -> None:
    rows = [
        dict(zip(LABEL_VALUES, (row["tenant"], label, row["id"]), strict=True))
        for row in found
        for label in dict.fromkeys(row["labels"])
    ]
    if rows:
        connection.execute(insert(labels), rows)
