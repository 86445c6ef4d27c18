"""Removals: rows that retention deleted, which an audit entry of the same transaction records for the chain."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any

from duetime.scheduler.audit.chain import Source
from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.events import DUETIME_ACTOR
from duetime.scheduler.store.audit import entries
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.tables.audit import audit_entries
from duetime.scheduler.store.schema.tables.events import events
from sqlalchemy import ColumnElement, Connection, select

_TABLES = {Source.EVENT: events, Source.ENTRY: audit_entries}
_NAMES = {Source.EVENT: "events", Source.ENTRY: "audit_entries"}

IdRanges = list[tuple[int, int]]


def note(connection: Connection, source: Source, going: ColumnElement[bool], now: datetime) -> None:
    """Record which rows this transaction is about to delete: those for which `going` holds, one entry per tenant."""
    table = _TABLES[source]
    found = connection.execute(select(table.c.tenant, table.c.id).where(going).order_by(table.c.tenant, table.c.id))
    for tenant, rows in groupby(found, key=lambda row: row.tenant):
        detail = {_NAMES[source]: ranges_text((row.id, row.id) for row in rows)}
        entries.store(connection, AuditEntry(tenant, AuditKind.ROWS_REMOVED, DUETIME_ACTOR, detail=detail), now)


class Removed:
    """The rows of a tenant that were deleted and recorded as such."""

    def __init__(self, found: Mapping[Source, IdRanges]) -> None:
        self._ranges = {source: list(_merged(some)) for source, some in found.items()}

    def has(self, source: Source, row_id: int) -> bool:
        some = self._ranges[source]
        place = bisect_right(some, row_id, key=itemgetter(0)) - 1
        return place >= 0 and row_id <= some[place][1]


def of(connection: Connection, tenant: str) -> Removed:
    """Return the recorded removals of a tenant."""
    statement = select(audit_entries.c.detail).where(
        audit_entries.c.tenant == tenant, audit_entries.c.kind == AuditKind.ROWS_REMOVED
    )
    found: dict[Source, IdRanges] = {source: [] for source in Source}
    for row in unreadable.rows(connection, statement):
        for source, name in _NAMES.items():
            found[source] += _parsed((row.detail or {}).get(name))
    return Removed(found)


def _merged(some: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Return the ranges in order, with adjacent ones merged."""
    last: tuple[int, int] | None = None
    for first, end in sorted(some):
        if last is not None and first <= last[1] + 1:
            last = (last[0], max(last[1], end))
            continue
        if last is not None:
            yield last
        last = (first, end)
    if last is not None:
        yield last


def ranges_text(some: Iterable[tuple[int, int]]) -> str:
    """Write ranges of numbers: `1-5,9`."""
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in _merged(some))


def _parsed(text: Any) -> IdRanges:
    found: IdRanges = []
    for part in text.split(",") if isinstance(text, str) and text else ():
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            found.append((int(first), int(last or first)))
    return found
