"""Writing many rows by one statement, fast: what every run needs three times.

SQLAlchemy binds each row of an executemany through several layers, which cost more than the database's own work. A
`Batch` is compiled by SQLAlchemy once for each dialect; its rows are then bound in one loop, by the same types, and
sent as they are: to SQLite one by one, to PostgreSQL all together as one JSON document (`recordsets`).
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

    On PostgreSQL all rows are written at once: no two may be about the same row of the table, and none sees another.
    """

    def __init__(self, statement: Insert | Update, columns: Sequence[str] = ()) -> None:
        self.written = RowStatement(statement, tuple(columns))
        self._plans: dict[str, _BatchPlan] = {}

    def run(self, connection: Connection, rows: Rows) -> int:
        """Execute it once for each row; returns how many rows of the table it found or made, 0 without any."""
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
    """Execute several batches, as one statement on PostgreSQL; returns how many rows the first found or made.

    None may need what another one writes, but as something to refer to.
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
    """The text for the driver, and how each of its parameters is made from a row, or else from a constant."""

    sql: str
    binds: Sequence[Bind]
    constants: Mapping[str, Any]

    def run(self, connection: Connection, rows: Rows) -> int:
        return connection.exec_driver_sql(self.sql, [self._bound(row) for row in rows]).rowcount

    def _bound(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        if self.constants:
            row = {**self.constants, **row}
        return tuple([process(row[name]) if process else row[name] for name, process in self.binds])
