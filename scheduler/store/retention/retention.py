"""Retention: finds rows that rules let go, counts and deletes them, and keeps when each kind was looked through."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from duetime.scheduler.audit.entry import AuditEntry
from duetime.scheduler.errors import Refused
from duetime.scheduler.history.retention import RetentionKind, RetentionRule, ScopedRule
from duetime.scheduler.store.audit import entries
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.database.unreadable import DAMAGE_ERRORS, is_damage
from duetime.scheduler.store.migrations.upgrade import HEAD_VERSION
from duetime.scheduler.store.retention import archive, deletion, imports, selection
from duetime.scheduler.store.retention.deletion import RowCounts
from duetime.scheduler.store.retention.parts import parts
from duetime.scheduler.store.retention.preview import CountedRows, Foreseen
from duetime.scheduler.store.retention.row_json import ARCHIVED_TABLES, columns, to_json
from duetime.scheduler.store.retention.selection import RowKey, Selected
from duetime.scheduler.store.schema.tables.policies import sweeps
from sqlalchemy import Connection, Table, literal, select, tuple_

MAX_KEYS_COUNTED = 500
RETENTION_LOCK_ID = 0x72657461  # "reta": one process at a time deletes what is old


BATCH_WORK_S, LONE_WRITER_BATCH_WORK_S = 0.03, 0.008
"""Seconds that a batch should take before its commit, which fewer rows would not make shorter.

All others wait for it where there is one writer, else those that write the same tasks. On a busy machine they wait
several times as long.
"""

MAX_ROWS_ARCHIVED_TOGETHER = 2_000
"""Rows that are read at once while a file is written."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """The result of one transaction: rows by table, whether more is left of the same row, and its seconds.

    `work_seconds` are those before its commit, which lasts as long for a few rows.
    """

    counts: RowCounts
    more: bool
    seconds: float
    work_seconds: float


@dataclass(frozen=True, slots=True)
class LastSweep:
    """When the rows of a kind were looked through last, how many were deleted, and why that ended early, if it did."""

    kind: RetentionKind
    finished_at: datetime
    deleted: int
    problem: str | None = None


class Retention:
    """Deletes what rules let go; what is still needed it never selects."""

    def __init__(self, database: Database, now: Callable[[], datetime]) -> None:
        self._database = database
        self._now = now

    @property
    def batch_work_s(self) -> float:
        """Seconds that one call of `delete` should take before its commit, so that no writer waits long."""
        return LONE_WRITER_BATCH_WORK_S if dialect_of(self._database.engine).has_one_writer else BATCH_WORK_S

    def alone(self) -> AbstractContextManager[bool]:
        """Whether no other process deletes by rules: then none can begin during the block."""
        return self._database.alone(RETENTION_LOCK_ID, "retention")

    def pages(
        self, scope: ScopedRule, before: datetime, ahead: Foreseen | None = None
    ) -> Iterator[tuple[Selected, ...]]:
        """Yield the rows that a rule lets go, or will in the state `ahead`, page by page; pages may be empty."""
        after: RowKey | None = None
        while True:
            page = self._database.read(lambda it, since=after: selection.page(it, scope, before, since, ahead))  # type: ignore[misc] # bound now
            yield page.rows
            after = page.after
            if after is None:
                return

    def count(self, kind: RetentionKind, rows: Sequence[Selected], counted: CountedRows) -> RowCounts:
        """Return how many rows of which tables would go with these, without those that were counted already."""
        found = RowCounts()
        for start in range(0, len(rows), MAX_KEYS_COUNTED):
            keys = [row.key for row in rows[start : start + MAX_KEYS_COUNTED]]
            found.update(self._database.read(lambda it, some=keys: deletion.count(it, kind, some, counted)))  # type: ignore[misc] # bound now
        return found

    def archive(self, kind: RetentionKind, rows: Sequence[Selected], directory: Path) -> tuple[Selected, ...]:
        """Write these rows, with all that goes with them, into a file of the archive; return those that are in it.

        Damaged rows are in none, so that they stay. Raises OSError.
        """
        try:
            return self._archived(kind, rows, directory)
        except DAMAGE_ERRORS as error:
            if not is_damage(error):
                raise
        readable = [row for row in rows if self._is_readable(kind, row)]
        return self._archived(kind, readable, directory) if readable else ()

    def _archived(self, kind: RetentionKind, rows: Sequence[Selected], directory: Path) -> tuple[Selected, ...]:
        keys, now = [row.key for row in rows], self._now()
        self._database.read(lambda it: archive.write(directory, kind, HEAD_VERSION, now, _rows_of(it, kind, keys)))
        return tuple(rows)

    def _is_readable(self, kind: RetentionKind, row: Selected) -> bool:
        try:
            self._database.read(lambda it: [to_json(each, table) for table, each in _rows_of(it, kind, [row.key])])
        except DAMAGE_ERRORS as error:
            if not is_damage(error):
                raise
            return False
        return True

    def import_file(
        self,
        path: Path,
        *,
        tenant: str | None = None,
        content: bytes | None = None,
        act: Callable[[RowCounts], AuditEntry] | None = None,
    ) -> tuple[RowCounts, int]:
        """Store the rows of a file that are missing; return these by table, and how many were there already.

        `content` is what the file has, where it lies on another machine. With a `tenant` a file that has rows of
        another one is refused. The entry that `act` makes of the result is stored in the same transaction. Raises
        Refused with the line, and OSError.
        """
        found = archive.read(path, HEAD_VERSION, content)
        others = found.tenants() - {tenant}
        if tenant is not None and others:
            raise Refused(f"{path} has rows of the tenant {min(others)!r}, not only of {tenant!r}. Nothing was stored.")

        def work(connection: Connection) -> tuple[RowCounts, int]:
            stored, there = imports.store(connection, found, tenant)
            if act is not None:
                entries.store(connection, act(stored), self._now())
            return stored, there

        return self._database.write(work)

    def delete(self, rule: RetentionRule, before: datetime, rows: Sequence[Selected]) -> Deletion:
        """Delete these rows, as far as they are not needed even now, with all that goes with them."""
        began = worked = 0.0

        def work(connection: Connection) -> tuple[RowCounts, bool]:
            nonlocal began, worked
            began = time.monotonic()  # from here on others wait
            found = deletion.delete_batch(connection, rule, before, rows, self._now())
            worked = time.monotonic()
            return found

        counts, more = self._database.write(work)
        return Deletion(counts, more, time.monotonic() - began, worked - began)

    def swept(self, kind: RetentionKind, deleted: int, problem: str | None = None) -> None:
        """Keep that the rows of a kind have been looked through."""
        values = {"kind": kind.value, "finished_at": self._now(), "deleted": deleted, "problem": problem}

        def work(connection: Connection) -> None:
            statement = dialect_of(connection).insert(sweeps).values(values)
            connection.execute(statement.on_conflict_do_update(index_elements=["kind"], set_=values))
            if kind is RetentionKind.TASKS:
                deletion.forget_spawned(connection)

        self._database.write(work)

    def last_sweeps(self) -> dict[RetentionKind, LastSweep]:
        """Return the last sweep of each kind that had one."""
        found = self._database.look(lambda connection: connection.execute(select(*sweeps.c)).all())
        known = set(RetentionKind)
        return {
            RetentionKind(row.kind): LastSweep(RetentionKind(row.kind), *row[1:]) for row in found if row.kind in known
        }


def _rows_of(
    connection: Connection, kind: RetentionKind, keys: Sequence[RowKey]
) -> Iterator[tuple[Table, dict[str, Any]]]:
    """Yield the rows of these keys and all that goes with them, parents first, a few at a time.

    A fire address is left out: a file must not be able to open a way to a task again.
    """
    for table, condition in (part for part in reversed(parts(kind, keys)) if part[0].name in ARCHIVED_TABLES):
        key = list(table.primary_key)
        statement = select(*columns(table)).where(condition).order_by(*key).limit(MAX_ROWS_ARCHIVED_TOGETHER)
        found = connection.execute(statement).mappings().all()
        while found:
            yield from ((table, {str(name): value for name, value in row.items()}) for row in found)
            if len(found) < MAX_ROWS_ARCHIVED_TOGETHER:
                break
            last: Any = [literal(found[-1][column.name], column.type) for column in key]
            found = connection.execute(statement.where(tuple_(*key) > tuple_(*last))).mappings().all()
