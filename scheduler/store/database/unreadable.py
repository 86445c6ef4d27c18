"""Rows that this version cannot read: written by a newer one, or damaged. They stay unchanged and hold up no other row.

A batch is read as usual. Only when that fails are its rows read one by one; the faulty ones are then left out of
results, limits and timers.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Column, Connection, Select

OPTION = "duetime_unreadable"
"""The execution option that holds the `Unreadable` of an engine."""

UNREADABLE_RETRY_DELAY_S = 300.0
"""Seconds after which a row is tried again, since it may have been repaired."""

MAX_ROWS_KNOWN = 10_000
PROBLEMS = (LookupError, TypeError, ValueError, AttributeError)
"""Exceptions from a row with an unknown word, shape or type."""

RowId = str | int

log = logging.getLogger(__name__)


class Unreadable:
    """Recently unreadable rows of one database, by table; thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._until: dict[tuple[str, RowId], float] = {}
        self._logged: set[tuple[str, RowId]] = set()

    @classmethod
    def of(cls, connection: Connection) -> Unreadable:
        found = connection.get_execution_options()[OPTION]
        assert isinstance(found, cls)
        return found

    def ids(self, table: str) -> list[RowId]:
        """Return the rows of a table to leave out now."""
        if not self._until:
            return []
        with self._lock:
            now = self._clock()
            self._until = {row: until for row, until in self._until.items() if until > now}
            return sorted((row_id for name, row_id in self._until if name == table), key=str)

    def add(self, table: str, row_id: RowId, problem: Exception) -> None:
        """Leave a row out for a while, and log it once."""
        row = (table, row_id)
        with self._lock:
            if len(self._until) < MAX_ROWS_KNOWN:
                self._until[row] = self._clock() + UNREADABLE_RETRY_DELAY_S
            new = row not in self._logged and len(self._logged) < MAX_ROWS_KNOWN
            self._logged |= {row} if new else set()
        if new:
            why = f"{type(problem).__name__}: {problem}"[:200]
            log.error("skipped %s %s, which this version of Duetime cannot read: %s", table, row_id, why)


def without(connection: Connection, statement: Select[Any], key: Column[Any]) -> Select[Any]:
    """Return the statement without the known unreadable rows."""
    known = Unreadable.of(connection).ids(key.table.name)
    return statement.where(key.not_in(known)) if known else statement


def rows(connection: Connection, statement: Select[Any], parameters: Mapping[str, Any], key: Column[Any]) -> list[Any]:
    """Return the readable rows of a statement; `key` is the column that identifies a row."""
    while True:
        wanted = without(connection, statement, key)
        try:
            return list(connection.execute(wanted, parameters).all())
        except PROBLEMS:
            if not _find(connection, wanted, parameters, key):
                raise


def _find(connection: Connection, statement: Select[Any], parameters: Mapping[str, Any], key: Column[Any]) -> bool:
    """Read the rows of a statement one by one; return whether a new unreadable one was found."""
    known = Unreadable.of(connection)
    before = known.ids(key.table.name)
    names = statement.with_only_columns(key, maintain_column_froms=True)
    for row_id in connection.execute(names, parameters).scalars().all():
        try:
            connection.execute(statement.where(key == row_id), parameters).all()
        except PROBLEMS as problem:
            known.add(key.table.name, row_id, problem)
    return known.ids(key.table.name) != before
