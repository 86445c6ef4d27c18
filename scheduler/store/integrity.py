"""Reads every row and reports those that break an invariant, for `duetime doctor --deep`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.schema.base import Base
from duetime.scheduler.store.schema.constraints import INVARIANTS, Invariant
from duetime.scheduler.store.schema.damage import DamagedValue, is_damaged
from duetime.scheduler.store.schema.tables.dead_letters import dead_letters
from sqlalchemy import ColumnElement, Row, Select, Table, literal, literal_column, select, tuple_

MAX_ROWS_PER_READ = 5_000
"""Rows of one query: a long one would keep PostgreSQL from clearing rows that are deleted during it."""

MAX_ROWS_NAMED = 3
"""Rows that a finding names, of however many."""


MAX_NEWEST_ROWS = 20_000
"""Rows of each table that a quick look for damage reads: they take a second or two."""

MAX_FAILED_TASKS_NAMED = 100


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
        """Read all tables, each in batches with a snapshot of its own; others may write in between."""
        rows, findings = 0, list[Finding]()
        for name, invariants in groupby(INVARIANTS, lambda each: each.table):
            found = _Table(Base.metadata.tables[name], tuple(invariants))
            for page in self._pages(found):
                rows += len(page)
                found.note(page)
            findings += found.findings()
        return Examined(rows, tuple(findings))

    def damaged(self, most: int | None = MAX_NEWEST_ROWS) -> Damaged:
        """Read at most `most` rows of each table, the newest first, and report what cannot be read."""
        rows, findings = 0, list[Finding]()
        for table in Base.metadata.sorted_tables:
            read, found = self._damaged_in(table, most)
            rows, findings = rows + read, findings + found
        failed = self._database.look(lambda connection: unreadable.rows(connection, _FAILED))
        return Damaged(rows, tuple(findings), tuple(dict.fromkeys(row.task_id for row in failed)))

    def _damaged_in(self, table: Table, most: int | None) -> tuple[int, list[Finding]]:
        key = list(table.primary_key)
        newest = select(*table.columns).order_by(*(column.desc() for column in key))
        read, names = 0, dict[str, list[str]]()
        while most is None or read < most:
            page, damaged = self._read(newest.limit(self._batch).offset(read))
            read += len(page)
            for row in filter(is_damaged, page) if damaged else ():
                for broken in _damages(table, row):
                    names.setdefault(broken, []).append(_name(table, row))
            if len(page) < self._batch:
                break
        remedy = _REMEDIES.get(table.name, _RESTORE)
        return read, [
            Finding(table.name, broken, remedy, len(which), tuple(which[:MAX_ROWS_NAMED]))
            for broken, which in names.items()
        ]

    def _read(self, statement: Select[Any]) -> tuple[list[Any], bool]:
        return self._database.look(lambda connection: unreadable.every(connection, statement))

    def _pages(self, of: _Table) -> Iterator[Sequence[Row[Any]]]:
        page: Sequence[Row[Any]] = ()
        while True:
            statement = of.page(page[-1] if page else None, self._batch)
            page = self._database.look(lambda connection, it=statement: connection.execute(it).all())  # type: ignore[misc] # bound now
            if page:
                yield page
            if len(page) < self._batch:
                return


@dataclass(frozen=True, slots=True)
class Damaged:
    """The damaged rows among the newest ones: by table how many, and which."""

    rows: int
    findings: tuple[Finding, ...]
    failed: tuple[str, ...]
    """Tasks of which a run ended as failed for that, the latest first."""


_REMEDIES = {
    "tasks": "`duetime cancel TASK` ends it; or restore the row from a backup.",
    "runs": "`duetime cancel TASK` ends its task; or restore the row from a backup.",
    "pools": "Declare the pool again.",
    "estimates": "The next durations of the action start it again.",
}
_RESTORE = "All else goes on without it; restore the row from a backup."
_FAILED = (
    select(dead_letters.c.task_id)
    .where(dead_letters.c.reason.like("damaged: %"))
    .order_by(dead_letters.c.at.desc())
    .limit(MAX_FAILED_TASKS_NAMED)
)


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
            for number in [number for number, holds in enumerate(row[width:]) if not holds]:
                self._counts[number] += 1
                if self._counts[number] <= MAX_ROWS_NAMED:
                    self._examples[number].append("/".join(map(str, row[:width])))

    def findings(self) -> Iterator[Finding]:
        for each, count, examples in zip(self._invariants, self._counts, self._examples, strict=True):
            if count:
                yield Finding(each.table, each.broken, each.remedy, count, tuple(examples))


def _damages(table: Table, row: Sequence[Any]) -> list[str]:
    """Return what is broken in a damaged row, by column."""
    values = zip(table.columns, row, strict=True)
    return [f"cannot be read in {column.name}: {each.why}" for column, each in values if isinstance(each, DamagedValue)]


def _name(table: Table, row: Sequence[Any]) -> str:
    """Return the key of a row, and its task."""
    named = {column.name: str(value) for column, value in zip(table.columns, row, strict=True)}
    key = "/".join(named[column.name] for column in table.primary_key)
    return f"{key} of {named['task_id']}" if "task_id" in named else key
