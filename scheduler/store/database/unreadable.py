"""Reads rows of which some may be damaged: written by a newer version, or by something else than Duetime.

A batch is read as usual. Only when that fails it is read again leniently, so that one damaged row hides no other.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.schema.damage import READ_ERRORS, DamagedValue, is_damaged, lenient
from duetime.scheduler.store.schema.rows import DamageWords, values_of
from sqlalchemy import Column, ColumnElement, Connection, Engine, Select
from sqlalchemy.exc import DBAPIError

UNREADABLE_OPTION = "duetime_unreadable"
"""The execution option that holds the `Unreadable` of an engine."""

UNREADABLE_RETRY_DELAY_S = 300.0
"""Seconds after which a row that had to be left alone is looked at again."""

DAMAGE_ERRORS = (*READ_ERRORS, DBAPIError)
"""Exceptions that may come from damaged rows; `is_damage` decides."""

UNREADABLE_LOG_INTERVAL_S = 60.0
"""Seconds between two log lines about the same column."""

MAX_ROWS_KNOWN = 10_000

RowId = str | int
V = TypeVar("V")
FoundRows = list[Any]

log = logging.getLogger(__name__)


class Unreadable:
    """The damaged rows of one database: which are left alone, and which columns were logged; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until: dict[tuple[str, RowId], float] = {}
        self._logged_at: dict[str, float] = {}

    @classmethod
    def of(cls, database: Connection | Engine) -> Unreadable:
        found = database.get_execution_options()[UNREADABLE_OPTION]
        assert isinstance(found, cls)
        return found

    def ids(self, table: str) -> list[RowId]:
        """Return the rows of a table to leave alone now."""
        if not self._until:
            return []
        with self._lock:
            now = time.monotonic()
            self._until = {row: until for row, until in self._until.items() if until > now}
            return sorted((row_id for name, row_id in self._until if name == table), key=str)

    def leave(self, table: str, row_id: RowId, seconds: float = UNREADABLE_RETRY_DELAY_S) -> None:
        """Leave a row alone for a while: only a newer version may change it, or writing it failed."""
        with self._lock:
            if len(self._until) < MAX_ROWS_KNOWN:
                self._until[table, row_id] = time.monotonic() + seconds

    def log(self, rows: FoundRows) -> None:
        """Log which columns are damaged, each once a minute at most."""
        for row in rows:
            for name, value in zip(row._fields, row, strict=True):  # a column name may occur twice
                if isinstance(value, DamagedValue) and self._may_log(name):
                    log.error("%s is damaged (%s) in the row %s", name, value.why, _name_of(row))

    def _may_log(self, column: str) -> bool:
        with self._lock:
            now = time.monotonic()
            may = now - self._logged_at.get(column, -UNREADABLE_LOG_INTERVAL_S) >= UNREADABLE_LOG_INTERVAL_S
            self._logged_at |= {column: now} if may else {}
        return may


def _name_of(row: Sequence[Any]) -> str:
    names = [str(value) for value in row if isinstance(value, str | int) and not isinstance(value, bool)]
    return names[0][:100] if names else "without a name"


def without(
    connection: Connection, statement: Select[Any], key: Column[Any], only: Collection[str] | None = None
) -> Select[Any]:
    """Return the statement without the rows that are left alone, and with `only` these others where they are given."""
    known = Unreadable.of(connection).ids(key.table.name)
    statement = statement if only is None else statement.where(key.in_(only))
    return statement.where(key.not_in(known)) if known else statement


def rows(connection: Connection, statement: Select[Any], parameters: Mapping[str, Any] | None = None) -> FoundRows:
    """Return the rows that can be read."""
    found, damaged = every(connection, statement, parameters)
    return [row for row in found if not is_damaged(row)] if damaged else found


def every(
    connection: Connection, statement: Select[Any], parameters: Mapping[str, Any] | None = None
) -> tuple[FoundRows, bool]:
    """Return all rows, and whether some are damaged: these have an `DamagedValue` in place of each damaged value."""
    try:
        return list(connection.execute(statement, parameters or {}).all()), False
    except DAMAGE_ERRORS as problem:
        if not is_damage(problem):
            raise
    found = _leniently(connection, statement, parameters or {})
    damaged = [row for row in found if is_damaged(row)]
    Unreadable.of(connection).log(damaged)
    return found, True


def values(
    connection: Connection,
    statement: Select[Any],
    kind: type[V],
    columns: Sequence[Column[Any]],
    parameters: Mapping[str, Any] | None = None,
) -> list[tuple[V, DamageWords]]:
    """Return the rows of these columns as values, each with what is damaged in it."""
    found, damaged = every(connection, statement, parameters)
    return values_of(kind, columns, found) if damaged else [(kind(*row), ()) for row in found]


def is_damage(error: BaseException) -> bool:
    """Whether a statement failed because of what is stored: bytes as text, an instant out of range, a list of needs."""
    if not isinstance(error, DBAPIError):
        return isinstance(error, READ_ERRORS)
    if "Could not decode to UTF-8" in str(error.orig):
        return True
    return any(kind.__name__ == "DataError" for kind in type(error.orig).__mro__)


def _leniently(connection: Connection, statement: Select[Any], parameters: Mapping[str, Any]) -> FoundRows:
    columns = cast("Iterable[ColumnElement[Any]]", statement.inner_columns)
    leniently = statement.with_only_columns(*(lenient(column, connection.dialect) for column in columns))
    with dialect_of(connection).undecoded(connection):
        return list(connection.execute(leniently, parameters).all())
