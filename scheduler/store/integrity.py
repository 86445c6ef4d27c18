"""Reads every row and reports those that break an invariant, for `duetime doctor --deep`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.schema.base import Base
from duetime.scheduler.store.schema.constraints import INVARIANTS, Invariant
from sqlalchemy import ColumnElement, Row, Select, Table, literal, literal_column, select, tuple_

MAX_ROWS_PER_READ = 5_000
"""Rows of one query: a long one would keep PostgreSQL from clearing what was deleted meanwhile."""

MAX_ROWS_NAMED = 3
"""Rows that a finding names, of however many."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Rows of a table that break an invariant: how many, the ids of the first ones, and what to do about it."""

    table: str
    broken: str
    remedy: str
    count: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Examined:
    """The number of rows that were read, and what was found."""

    rows: int
    findings: tuple[Finding, ...]


class Integrity:
    """Looks at what the database does not enforce itself."""

    def __init__(self, database: Database, *, batch: int = MAX_ROWS_PER_READ) -> None:
        self._database = database
        self._batch = batch

    def examine(self) -> Examined:
        """Read all tables, each in batches with a snapshot of its own; others may write meanwhile."""
        rows, findings = 0, list[Finding]()
        for name, invariants in groupby(INVARIANTS, lambda each: each.table):
            found = _Table(Base.metadata.tables[name], tuple(invariants))
            for page in self._pages(found):
                rows += len(page)
                found.note(page)
            findings += found.findings()
        return Examined(rows, tuple(findings))

    def _pages(self, of: _Table) -> Iterator[Sequence[Row[Any]]]:
        after: Row[Any] | None = None
        while True:
            statement = of.page(after, self._batch)
            page = self._database.read(lambda connection, it=statement: connection.execute(it).all())  # type: ignore[misc] # bound now
            if not page:
                return
            yield page
            after = page[-1]


class _Table:
    """One table with its invariants, and the rows that break them."""

    def __init__(self, table: Table, invariants: Sequence[Invariant]) -> None:
        self._key = list(table.primary_key)
        self._invariants = invariants
        self._counts = [0] * len(invariants)
        self._examples: list[list[str]] = [[] for _ in invariants]
        flags: list[ColumnElement[bool]] = [
            literal_column(f"({each.holds})").label(f"holds_{n}") for n, each in enumerate(invariants)
        ]
        self._select: Select[Any] = select(*self._key, *flags).select_from(table).order_by(*self._key)

    def page(self, after: Row[Any] | None, limit: int) -> Select[Any]:
        if after is None:
            return self._select.limit(limit)
        last = [literal(value, column.type) for value, column in zip(after, self._key, strict=False)]
        return self._select.where(tuple_(*self._key) > tuple_(*last)).limit(limit)

    def note(self, page: Sequence[Row[Any]]) -> None:
        """Keep the rows that break an invariant; an unknown answer (NULL) breaks it too."""
        width = len(self._key)
        for row in page:
            for number, holds in enumerate(row[width:]):
                if not holds:
                    self._counts[number] += 1
                    if self._counts[number] <= MAX_ROWS_NAMED:
                        self._examples[number].append("/".join(map(str, row[:width])))

    def findings(self) -> Iterator[Finding]:
        for each, count, examples in zip(self._invariants, self._counts, self._examples, strict=True):
            if count:
                yield Finding(each.table, each.broken, each.remedy, count, tuple(examples))
