"""Verifies a chain: each segment by the one before it, each entry by its row, and each row by the chain."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from duetime.scheduler.audit.chain import (
    GENESIS,
    AuditKeys,
    Head,
    SealedRow,
    Segment,
    Source,
    segment_hash,
    unpacked,
)
from duetime.scheduler.audit.verdict import Break, ChainVerdict, KeptHead
from duetime.scheduler.store.audit import content, removals
from duetime.scheduler.store.audit.deletion_ages import DeletionAges, LeastAge
from duetime.scheduler.store.audit.removals import Removed
from duetime.scheduler.store.audit.seal import SEGMENT_FIELDS, Progress, heads, progress
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.schema.tables.audit import audit_segments
from sqlalchemy import Connection, Select, select

MAX_ENTRIES_PER_READ = 5_000
"""Entries of one query, as far as a segment does not have more."""

MAX_SEGMENTS_PER_READ = 100
MAX_IDS_PER_READ = 10_000


class _Broken(Exception):
    """The chain is broken at this entry."""

    def __init__(self, entry: int, wrong: str) -> None:
        super().__init__(wrong)
        self.found = Break(entry, wrong)


class ChainVerification:
    """One pass over the chain of one tenant, as it was when this began; others may write during it."""

    def __init__(
        self,
        database: Database,
        keys: AuditKeys,
        tenant: str,
        anchors: Sequence[KeptHead] = (),
        on_progress: Callable[[int], None] = lambda _entries: None,
    ) -> None:
        self._database = database
        self._keys = keys
        self._tenant = tenant
        self._kept = {head.entries: head for head in anchors}
        self._seen = on_progress
        self._head, self._progress = database.read(self._begin)
        self._rows = {source: array("q") for source in Source}
        self._removed: Removed = database.read(lambda connection: removals.of(connection, tenant))
        self._ages = DeletionAges()
        self._checked = self._unkeyed = 0

    def _begin(self, connection: Connection) -> tuple[Head, Progress]:
        return heads(connection).get(self._tenant, Head(self._tenant)), progress(connection)

    def run(self, least_age: LeastAge | None = None) -> ChainVerdict:
        """Read all of the chain, or what is before its first break; see `Removal` for events below `least_age`."""
        try:
            self._segments_and_rows()
            self._check_unsealed_rows()
        except _Broken as found:
            broken: Break | None = found.found
        else:
            broken = self._ages.broken()
        return ChainVerdict(
            self._tenant,
            self._head.entries,
            self._head.hash,
            checked=self._checked,
            removals=self._ages.removals(least_age),
            pending=self._pending(),
            unkeyed=self._unkeyed,
            broken=broken,
        )

    def _segments_and_rows(self) -> None:
        """Follow the segments from the first one to the head."""
        number, entries, previous, key_id = 0, 0, GENESIS, None
        self._compare_kept(0, GENESIS)
        for segment in self._segments():
            if segment.number != number + 1:
                raise _Broken(entries + 1, f"segment {number + 1} of the chain is missing")
            self._check(segment, entries, previous, key_id)
            number, entries, previous, key_id = segment.number, segment.last, segment.hash, segment.key_id
            self._unkeyed = entries if key_id is None and self._keys else self._unkeyed
            self._compare_kept(entries, previous)
        self._check_end(Head(self._tenant, number, entries, previous, key_id))

    def _segments(self) -> Iterator[Segment]:
        number = 0
        while number < self._head.segments:
            behind = audit_segments.c.number > number, audit_segments.c.number <= self._head.segments
            statement = select(*SEGMENT_FIELDS).where(audit_segments.c.tenant == self._tenant, *behind)
            statement = statement.order_by(audit_segments.c.number).limit(MAX_SEGMENTS_PER_READ)
            found = self._read(statement)
            if not found:
                return
            yield from found
            number = found[-1].number

    def _read(self, statement: Select[Any]) -> list[Segment]:
        return self._database.read(lambda connection: [Segment(*row) for row in unreadable.rows(connection, statement)])

    def _check(self, segment: Segment, entries: int, previous: str, key_id: str | None) -> None:
        first = entries + 1
        if segment.key_id not in self._keys:
            raise _Broken(first, f"segment {segment.number} was sealed with the key {segment.key_id}, not with yours")
        if segment.key_id is None and key_id is not None:
            raise _Broken(first, f"segment {segment.number} was sealed without the key of those before it")
        if segment.previous != previous or segment.first != first:
            raise _Broken(first, f"segment {segment.number} does not follow the one before it")
        rows = self._unpacked(segment)
        if segment.hash != segment_hash(segment, self._keys) or len(rows) != segment.count:
            raise _Broken(first, f"segment {segment.number} was changed")
        for start in range(0, len(rows), MAX_ENTRIES_PER_READ):
            self._compare(segment, first + start, rows[start : start + MAX_ENTRIES_PER_READ])

    def _unpacked(self, segment: Segment) -> list[SealedRow]:
        try:
            return list(unpacked(segment.entries))
        except (ValueError, TypeError) as wrong:
            raise _Broken(segment.first, f"segment {segment.number} was changed: {wrong}") from None

    def _compare(self, segment: Segment, first: int, rows: Sequence[SealedRow]) -> None:
        """Compare entries of a segment with their rows."""
        stored = {source: self._stored(source, rows) for source in {row.source for row in rows}}
        for entry, row in enumerate(rows, first):
            source = Source(row.source)
            self._rows[source].append(row.row_id)
            found = stored[row.source].get(row.row_id)
            if found is None:
                self._check_removed(entry, source, row.row_id, segment)
            elif found != (self._tenant, row.digest):
                raise _Broken(entry, f"{source.noun} {row.row_id} was changed")
            else:
                self._checked += 1
            if source is Source.ENTRY and row.row_id in self._removed.records:
                self._ages.sealed[row.row_id] = segment.sealed_at
        self._seen(len(rows))

    def _stored(self, source: int, rows: Sequence[SealedRow]) -> dict[int, tuple[str, bytes]]:
        ids = [row.row_id for row in rows if row.source == source]
        return self._database.read(lambda connection: content.digests(connection, Source(source), ids))

    def _check_removed(self, entry: int, source: Source, row_id: int, segment: Segment) -> None:
        if source is not Source.EVENT:
            raise _Broken(entry, f"{source.noun} {row_id} was deleted, which no rule of retention does")
        record = self._removed.record_of(row_id)
        if record is None:  # retention may have deleted it during this pass
            self._removed = self._database.read(lambda connection: removals.of(connection, self._tenant))
            record = self._removed.record_of(row_id)
        if record is None:
            raise _Broken(entry, f"{source.noun} {row_id} was deleted, and no rule of retention did it")
        self._ages.add(entry, row_id, segment, record)

    def _compare_kept(self, entries: int, hash_: str) -> None:
        if entries in self._kept and self._kept[entries].hash == hash_:
            del self._kept[entries]

    def _check_end(self, end: Head) -> None:
        if end != self._head:
            raise _Broken(end.entries + 1, f"the tail is missing: the head has {self._head.entries:,} entries")
        if self._keys and end.segments and end.key_id is None:
            raise _Broken(1, "no entry is sealed with a key, although there is one")
        for kept in sorted(self._kept.values(), key=lambda head: head.entries):
            if kept.entries > end.entries:
                raise _Broken(
                    end.entries + 1, f"the tail is missing: the head that you kept has {kept.entries:,} entries"
                )
            raise _Broken(max(1, kept.entries), "the chain is another one than that of the head that you kept")

    def _check_unsealed_rows(self) -> None:
        """Look for rows that the chain has passed without an entry, and for rows with two entries."""
        for source in Source:
            known = array("q", sorted(self._rows[source]))
            twice = next((one for one, two in pairwise(known) if one == two), None)
            if twice is not None:
                raise _Broken(self._head.entries, f"{source.noun} {twice} was sealed twice")
            added = self._unsealed_row(source, known)
            if added is not None:
                raise _Broken(self._head.entries + 1, f"{source.noun} {added} was added without being sealed")

    def _unsealed_row(self, source: Source, known: Sequence[int]) -> Any | None:
        """Return the first row that lacks its entry in the chain."""

        def work(connection: Connection) -> Any | None:
            statement = content.statements(connection, source).sealed_ids.execution_options(yield_per=MAX_IDS_PER_READ)
            with connection.execute(statement, self._asked(source)) as found:
                return _first_unknown(found.scalars(), known)

        return self._database.read(work)

    def _pending(self) -> int:
        def work(connection: Connection) -> int:
            counts = [content.statements(connection, source).pending for source in Source]
            found = zip(counts, map(self._asked, Source), strict=True)
            return sum(connection.execute(count, asked).scalar_one() for count, asked in found)

        return self._database.read(work)

    def _asked(self, source: Source) -> dict[str, Any]:
        at = self._progress.of(source)
        return {"tenant": self._tenant, "tx": at.tx, "id": at.id}


def _first_unknown(ids: Iterable[Any], known: Sequence[int]) -> Any | None:
    """Return the first of some ordered ids that is not among the known ones, which are ordered as well."""
    rest = iter(known)
    following = next(rest, None)
    for row_id in ids:
        while following is not None and following < row_id:
            following = next(rest, None)
        if following != row_id:
            return row_id
    return None
