"""Seals: adds the rows that are not yet in the chain of their tenant.

This is apart from the writes: a hash that each write computed would make the writers of a tenant wait for one another.
Rows are read without a lock. One short transaction then moves the progress and adds the segments, or finds that another
process was first and adds nothing. So a crash between the two loses nothing and seals nothing twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, replace
from datetime import datetime
from typing import Any, NamedTuple

from duetime.scheduler.audit.chain import AuditKeys, Head, Segment, Source, packed, segment_hash
from duetime.scheduler.store.audit import content
from duetime.scheduler.store.audit.content import CommitPosition
from duetime.scheduler.store.database import transaction_order
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.schema.rows import columns_of
from duetime.scheduler.store.schema.tables.audit import audit_heads, audit_progress, audit_segments
from sqlalchemy import Connection, insert, select, update

MAX_ROWS_SEALED = 1_000
"""Rows of one step: reading and hashing them takes some ten milliseconds."""

_HEAD = columns_of(Head, audit_heads)
SEGMENT_FIELDS = columns_of(Segment, audit_segments)
_HEAD_NAMES, _SEGMENT_NAMES = ([column.name for column in columns] for columns in (_HEAD, SEGMENT_FIELDS))
_PROGRESS = ("event_tx", "event_id", "entry_tx", "entry_id")

log = logging.getLogger(__name__)


class Progress(NamedTuple):
    """The positions up to which all rows are sealed in the chains."""

    events: CommitPosition = CommitPosition(0, 0)
    entries: CommitPosition = CommitPosition(0, 0)

    def of(self, source: Source) -> CommitPosition:
        return self.events if source is Source.EVENT else self.entries


class _Outrun(Exception):
    """Another process has sealed first."""


class _Read(NamedTuple):
    before: Progress
    after: Progress
    rows: list[content.ReadRow]
    heads: dict[str, Head]


def progress(connection: Connection) -> Progress:
    found = connection.execute(select(*(audit_progress.c[name] for name in _PROGRESS))).first()
    return Progress() if found is None else Progress(CommitPosition(*found[:2]), CommitPosition(*found[2:]))


def heads(connection: Connection) -> dict[str, Head]:
    return {row.tenant: Head(*row) for row in connection.execute(select(*_HEAD).order_by(audit_heads.c.tenant))}


class Sealer:
    """Adds rows to the chains with the newest of the keys."""

    def __init__(self, database: Database, now: Callable[[], datetime], keys: AuditKeys) -> None:
        self._database = database
        self._now = now
        self._keys = keys
        self._warned = False
        self._looked = False
        """Whether chains that end with an older key were looked for."""

    def step(self, most: int = MAX_ROWS_SEALED, *, durable: bool = False) -> int:
        """Seal the next rows, `most` of each table; return how many, 0 also when another process was first.

        A step that is lost in a power cut is repeated, unless it is `durable`.
        """
        transaction_order.repair(self._database)
        read = self._database.read(lambda connection: self._read(connection, most))
        if self._looked and not read.rows:
            return 0
        self._looked = True
        if self._lacks_key(read.heads.values()):
            return 0
        segments = [*self._segments(read), *self._under_new_key(read)]
        if not segments:
            return 0
        try:
            self._database.write(lambda connection: _store(connection, read, segments), durable=durable)
        except _Outrun:
            return 0
        return len(read.rows)

    def _read(self, connection: Connection, most: int) -> _Read:
        before = progress(connection)
        rows: list[content.ReadRow] = []
        ends: list[CommitPosition] = []
        for source in Source:
            found = content.following(connection, source, before.of(source), most)
            rows += found
            ends.append(found[-1].position if found else before.of(source))
        return _Read(before, Progress(*ends), rows, heads(connection) if rows or not self._looked else {})

    def _lacks_key(self, ends: Iterable[Head]) -> bool:
        """Whether chains are sealed with a key and this process has none: it must not continue without one."""
        lacks = not self._keys and any(head.key_id for head in ends)
        if lacks and not self._warned:
            log.warning("audit chains are sealed with a key: set audit_keys, or this process seals nothing")
        self._warned = lacks
        return lacks

    def _segments(self, read: _Read) -> Iterator[Segment]:
        by_tenant: dict[str, list[content.ReadRow]] = {}
        for row in read.rows:
            by_tenant.setdefault(row.tenant, []).append(row)
        for tenant, rows in by_tenant.items():
            yield self._segment(read.heads.get(tenant, Head(tenant)), rows)

    def _under_new_key(self, read: _Read) -> Iterator[Segment]:
        """Return an empty segment for each other chain that an older key sealed, or none, to end it with the newest."""
        grown = {row.tenant for row in read.rows}
        for head in read.heads.values():
            if head.key_id != self._keys.newest and head.tenant not in grown:
                yield self._segment(head, [])

    def _segment(self, head: Head, rows: list[content.ReadRow]) -> Segment:
        times = [row.at for row in rows if row.sealed.source == Source.EVENT]
        known = [at for at in times if at is not None]
        plain = Segment(
            tenant=head.tenant,
            number=head.segments + 1,
            first=head.entries + 1,
            count=len(rows),
            sealed_at=self._now(),
            entries=packed([row.sealed for row in rows]),
            key_id=self._keys.newest,
            previous=head.hash,
            hash="",
            oldest_at=min(known) if known and len(known) == len(times) else None,
        )
        return replace(plain, hash=segment_hash(plain, self._keys))


def _store(connection: Connection, read: _Read, segments: list[Segment]) -> None:
    _advance(connection, read)
    found = heads(connection)
    if any(found.get(it.tenant, Head(it.tenant)).hash != it.previous for it in segments):
        raise _Outrun
    connection.execute(insert(audit_segments), [dict(zip(_SEGMENT_NAMES, astuple(it), strict=True)) for it in segments])
    upsert = dialect_of(connection).insert(audit_heads)
    changed = {name: upsert.excluded[name] for name in _HEAD_NAMES[1:]}
    ends = [Head(it.tenant, it.number, it.last, it.hash, it.key_id) for it in segments]
    statement = upsert.on_conflict_do_update(index_elements=["tenant"], set_=changed)
    connection.execute(statement, [dict(zip(_HEAD_NAMES, astuple(head), strict=True)) for head in ends])


def _advance(connection: Connection, read: _Read) -> None:
    """Store the new progress if it is still the old one, even where the two are equal: so only one process seals."""
    if read.before == Progress():
        first = dialect_of(connection).insert(audit_progress).on_conflict_do_nothing()
        connection.execute(first, {"id": 1, **_values(read.before)})
    unmoved = (audit_progress.c[name] == value for name, value in _values(read.before).items())
    if connection.execute(update(audit_progress).where(*unmoved).values(_values(read.after))).rowcount != 1:
        raise _Outrun


def _values(at: Progress) -> dict[str, Any]:
    return dict(zip(_PROGRESS, (*at.events, *at.entries), strict=True))
