"""Writes many rows by one statement; every run needs three such writes.

SQLAlchemy binds each row of an executemany through several layers, which costs more than the database's own work. A
`Batch` is compiled once per dialect; one loop then binds its rows by the same types. SQLite gets them one by one,
PostgreSQL all together as one JSON document (`recordset`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from duetime.scheduler.store.sql import recordset
from duetime.scheduler.store.sql.recordset import Rows, RowStatement
from sqlalchemy import Connection, Dialect, Insert, Update
from sqlalchemy.sql.compiler import SQLCompiler

Bind = tuple[str, Callable[[Any], Any] | None]


class _BatchPlan(Protocol):
    def run(self, connection: Connection, rows: Rows) -> int: ...


class Batch:
    """An INSERT or UPDATE; `columns` are those that an INSERT takes from its rows.

    On PostgreSQL all rows are written at once: no two may name the same row of the table, and none sees another.
    """

    def __init__(self, statement: Insert | Update, columns: Sequence[str] = ()) -> None:
        self.written = RowStatement(statement, tuple(columns))
        self._plans: dict[str, _BatchPlan] = {}

    def run(self, connection: Connection, rows: Rows) -> int:
        """Execute the statement for all rows; return the number of rows found or inserted, 0 without any."""
        if not rows:
            return 0
        dialect = connection.dialect
        plan = self._plans.get(dialect.name) or self._plans.setdefault(dialect.name, self._plan(dialect))
        return plan.run(connection, rows)

    def _plan(self, dialect: Dialect) -> _BatchPlan:
        if dialect.name == "postgresql":
            return recordset.planned([self.written], dialect)
        statement, columns = self.written
        compiled = statement.compile(dialect=dialect, column_keys=list(columns), for_executemany=True)
        assert isinstance(compiled, SQLCompiler)
        assert compiled.positiontup is not None
        types = [(name, compiled.binds[name].type) for name in compiled.positiontup]
        binds = [(name, kind.dialect_impl(dialect).bind_processor(dialect)) for name, kind in types]
        constants = {name: value for name, value in compiled.params.items() if value is not None}
        return _Positional(compiled.string, binds, constants)


def together(connection: Connection, *parts: tuple[Batch, Rows]) -> int:
    """Execute several batches, on PostgreSQL by one statement; return the rows that the first found or inserted.

    No batch may read the rows of another; a foreign key may refer to them.
    """
    filled = [(batch, rows) for batch, rows in parts if rows]
    if connection.dialect.name != "postgresql":
        first, *_ = [batch.run(connection, rows) for batch, rows in filled]
        return first
    plan = _combined(tuple(batch for batch, _ in filled), connection.dialect)
    return plan.run(connection, *(rows for _, rows in filled))


@lru_cache(maxsize=64)
def _combined(batches: tuple[Batch, ...], dialect: Dialect) -> recordset.CompiledStatement:
    return recordset.planned([batch.written for batch in batches], dialect)


@dataclass(frozen=True, slots=True)
class _Positional:
    """The SQL text, and how each parameter is made: from a row or from a constant."""

    sql: str
    binds: Sequence[Bind]
    constants: Mapping[str, Any]

    def run(self, connection: Connection, rows: Rows) -> int:
        return connection.exec_driver_sql(self.sql, [self._bound(row) for row in rows]).rowcount

    def _bound(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        if self.constants:
            row = {**self.constants, **row}
        return tuple([process(row[name]) if process else row[name] for name, process in self.binds])
