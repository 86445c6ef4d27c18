"""Writes many rows by one statement; every run needs three such writes.

SQLAlchemy binds each row of an executemany through several layers, which costs more than the database's own work. A
`Batch` is compiled once per database; one loop then binds its rows by the same types. SQLite gets them one by one
(`positional`), PostgreSQL all together as one JSON document (`recordset`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

from duetime.scheduler.store.database.dialects import StoreDialect, dialect_of
from duetime.scheduler.store.sql import recordset
from duetime.scheduler.store.sql.positional import PositionalInsert, PositionalStatement
from duetime.scheduler.store.sql.recordset import Rows, RowStatement
from sqlalchemy import Connection, Dialect, Insert, Update


class _BatchPlan(Protocol):
    def run(self, connection: Connection, rows: Rows) -> int: ...


class Batch:
    """An INSERT or UPDATE; `columns` are those that an INSERT takes from its rows.

    On PostgreSQL all rows are written at once: no two may name the same row of the table, and none sees another.
    """

    def __init__(self, statement: Insert | Update, columns: Sequence[str] = ()) -> None:
        self.written = RowStatement(statement, tuple(columns))
        self._plans: dict[StoreDialect, _BatchPlan] = {}

    def run(self, connection: Connection, rows: Rows) -> int:
        """Execute the statement for all rows; return the number of rows found or inserted, 0 without any."""
        if not rows:
            return 0
        dialect = dialect_of(connection)
        plan = self._plans.get(dialect) or self._plans.setdefault(dialect, self._plan(connection))
        return plan.run(connection, rows)

    def _plan(self, connection: Connection) -> _BatchPlan:
        if dialect_of(connection).writes_rows_at_once:
            return recordset.planned([self.written], connection.dialect)
        statement, columns = self.written
        if isinstance(statement, Insert):
            return PositionalInsert(statement, connection.dialect, columns)
        return PositionalStatement.of(statement, connection.dialect)


def together(connection: Connection, *parts: tuple[Batch, Rows]) -> int:
    """Execute several batches, on PostgreSQL by one statement; return the rows that the first found or inserted.

    No batch may read the rows of another; a foreign key may refer to them.
    """
    filled = [(batch, rows) for batch, rows in parts if rows]
    if not dialect_of(connection).writes_rows_at_once:
        first, *_ = [batch.run(connection, rows) for batch, rows in filled]
        return first
    plan = _combined(tuple(batch for batch, _ in filled), connection.dialect)
    return plan.run(connection, *(rows for _, rows in filled))


@lru_cache(maxsize=64)
def _combined(batches: tuple[Batch, ...], dialect: Dialect) -> recordset.CompiledStatement:
    return recordset.planned([batch.written for batch in batches], dialect)
