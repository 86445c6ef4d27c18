"""Counts what a sweep would delete: earlier rules free rows for later rules, and no row counts twice."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from duetime.scheduler.history.retention import ScopedRule


class CountedRows:
    """The keys of rows that were counted, in a temporary file: of a large database they do not fit into memory."""

    def __init__(self) -> None:
        self._file = sqlite3.connect("", check_same_thread=False)
        self._file.execute("CREATE TABLE counted (name TEXT, row TEXT, PRIMARY KEY (name, row)) WITHOUT ROWID")

    def add(self, table: str, keys: Iterable[Sequence[Any]]) -> int:
        """Add rows of a table; return how many are new."""
        before = self._file.total_changes
        self._file.executemany("INSERT OR IGNORE INTO counted VALUES (?, ?)", ((table, repr([*key])) for key in keys))
        return self._file.total_changes - before

    def has(self, table: str, key: Sequence[Any]) -> bool:
        found = self._file.execute("SELECT 1 FROM counted WHERE name = ? AND row = ?", (table, repr([*key])))
        return found.fetchone() is not None

    def close(self) -> None:
        self._file.close()


@dataclass(frozen=True, slots=True)
class Foreseen:
    """The state in which a rule is applied: keys that expired by `now` are gone, and so is what `applied` rules let go.

    Each of these comes with the time before which its rows are old.
    """

    now: datetime
    applied: Sequence[tuple[ScopedRule, datetime]] = ()
