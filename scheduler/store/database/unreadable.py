"""Rows that this version cannot read: written by a newer one, or damaged. They are left alone, and hold up no other.

A batch is read as always. Only when that fails are its rows read one by one, and those at fault are left out from then
on: of the answer, and of the limits and times that would be found for them again and again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Column, Connection, Select

OPTION = "duetime_unreadable"
"""The execution option under which an engine has its `Unreadable`."""

LEFT_ALONE_S = 300.0
"""Seconds after which a row is tried again: someone may have mended it."""

MAX_KNOWN = 10_000
PROBLEMS = (LookupError, TypeError, ValueError, AttributeError)
"""The errors that reading a row raises when a word, a shape or a type in it is not known."""

RowId = str | int

log = logging.getLogger(__name__)


class Unreadable:
    """The rows of one database that could not be read lately, by table; thread-safe."""

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
        """Return the rows of a table that are to be left out now."""
        if not self._until:
            return []
        with self._lock:
            now = self._clock()
            self._until = {row: until for row, until in self._until.items() if until > now}
            return sorted((row_id for name, row_id in self._until if name == table), key=str)

    def add(self, table: str, row_id: RowId, problem: Exception) -> None:
        """Leave a row out for a while, and say so in the log once."""
        row = (table, row_id)
        with self._lock:
            if len(self._until) < MAX_KNOWN:
                self._until[row] = self._clock() + LEFT_ALONE_S
            new = row not in self._logged and len(self._logged) < MAX_KNOWN
            self._logged |= {row} if new else set()
        if new:
            why = f"{type(problem).__name__}: {problem}"[:200]
            log.error("%s %s cannot be read by this version of Duetime and is left alone: %s", table, row_id, why)


def without(connection: Connection, statement: Select[Any], key: Column[Any]) -> Select[Any]:
    """Return the statement without the rows that are known to be unreadable."""
    known = Unreadable.of(connection).ids(key.table.name)
    return statement.where(key.not_in(known)) if known else statement


def rows(connection: Connection, statement: Select[Any], parameters: Mapping[str, Any], key: Column[Any]) -> list[Any]:
    """Return the rows of a statement that can be read; `key` is the column by which one row is found again."""
    while True:
        wanted = without(connection, statement, key)
        try:
            return list(connection.execute(wanted, parameters).all())
        except PROBLEMS:
            if not _find(connection, wanted, parameters, key):
                raise


def _find(connection: Connection, statement: Select[Any], parameters: Mapping[str, Any], key: Column[Any]) -> bool:
    """Read the rows of a statement one by one; whether some could not be read that were not known before."""
    known = Unreadable.of(connection)
    before = known.ids(key.table.name)
    names = statement.with_only_columns(key, maintain_column_froms=True)
    for row_id in connection.execute(names, parameters).scalars().all():
        try:
            connection.execute(statement.where(key == row_id), parameters).all()
        except PROBLEMS as problem:
            known.add(key.table.name, row_id, problem)
    return known.ids(key.table.name) != before
