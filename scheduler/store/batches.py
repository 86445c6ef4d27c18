"""Writing many rows by one statement, fast: what every run needs three times.

SQLAlchemy binds each row of an executemany through several layers, which cost more than SQLite's own work. A `Batch`
is compiled by SQLAlchemy once for each dialect; its rows are then bound in one loop, by the same types, and sent as
they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Dialect, Insert, Update
from sqlalchemy.sql.compiler import SQLCompiler

Bind = tuple[str, Callable[[Any], Any] | None]


class Batch:
    """An INSERT or UPDATE; `columns` are those that an INSERT takes from its rows."""

    def __init__(self, statement: Insert | Update, columns: Sequence[str] = ()) -> None:
        self._statement = statement
        self._columns = list(columns)
        self._plans: dict[str, _Plan] = {}

    def run(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> int:
        """Execute it once for each row; returns how many rows of the table it found or made, 0 without any."""
        if not rows:
            return 0
        dialect = connection.dialect
        plan = self._plans.get(dialect.name) or self._plans.setdefault(dialect.name, self._plan(dialect))
        return connection.exec_driver_sql(plan.sql, [plan.bound(row) for row in rows]).rowcount

    def _plan(self, dialect: Dialect) -> _Plan:
        compiled = self._statement.compile(dialect=dialect, column_keys=self._columns, for_executemany=True)
        assert isinstance(compiled, SQLCompiler)
        names = compiled.positiontup if compiled.positional else list(compiled.bind_names.values())
        assert names is not None
        binds = [(name, compiled.binds[name].type.dialect_impl(dialect).bind_processor(dialect)) for name in names]
        constants = {name: value for name, value in compiled.params.items() if value is not None}
        return _Plan(compiled.string, binds, constants, positional=compiled.positional)


@dataclass(frozen=True, slots=True)
class _Plan:
    """The text for the driver, and how each of its parameters is made from a row, or else from a constant."""

    sql: str
    binds: Sequence[Bind]
    constants: Mapping[str, Any]
    positional: bool

    def bound(self, row: Mapping[str, Any]) -> Any:
        if self.constants:
            row = {**self.constants, **row}
        if self.positional:
            return tuple([process(row[name]) if process else row[name] for name, process in self.binds])
        return {name: process(row[name]) if process else row[name] for name, process in self.binds}
