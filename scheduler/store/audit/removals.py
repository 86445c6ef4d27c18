"""Removals: events that retention deleted, which an audit entry of the same transaction records for the chain.

No rule of retention deletes audit entries, so no record of a removal excuses the absence of one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.events import DUETIME_ACTOR
from duetime.scheduler.store.audit import entries
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.tables.audit import audit_entries
from duetime.scheduler.store.schema.tables.events import events
from sqlalchemy import ColumnElement, Connection, select

_NAME = "events"

IdRange = tuple[int, int]


def note(connection: Connection, going: ColumnElement[bool], now: datetime) -> None:
    """Record which events this transaction is about to delete: those for which `going` holds, one entry per tenant."""
    ordered = select(events.c.tenant, events.c.id).where(going).order_by(events.c.tenant, events.c.id)
    for tenant, rows in groupby(connection.execute(ordered), key=lambda row: row.tenant):
        detail = {_NAME: ranges_text((row.id, row.id) for row in rows)}
        entries.store(connection, AuditEntry(tenant, AuditKind.ROWS_REMOVED, DUETIME_ACTOR, detail=detail), now)


class RemovalRecord(NamedTuple):
    """The audit entry of a removal: its number, and its time."""

    id: int
    at: datetime


class Removed:
    """The events of a tenant that were deleted and recorded as such, each with its record."""

    def __init__(self, found: Iterable[tuple[RemovalRecord, Iterable[IdRange]]]) -> None:
        known = list(found)
        self.records = frozenset(record.id for record, _ in known)
        self._ranges = list(_disjoint((first, last, by) for by, some in known for first, last in _merged(some)))

    def record_of(self, event_id: int) -> RemovalRecord | None:
        """Return the record of the removal of an event, None where there is none."""
        place = bisect_right(self._ranges, event_id, key=itemgetter(0)) - 1
        if place < 0:
            return None
        _, last, record = self._ranges[place]
        return record if event_id <= last else None


def of(connection: Connection, tenant: str) -> Removed:
    """Return the recorded removals of a tenant."""
    statement = select(audit_entries.c.id, audit_entries.c.at, audit_entries.c.detail).where(
        audit_entries.c.tenant == tenant, audit_entries.c.kind == AuditKind.ROWS_REMOVED
    )
    rows = unreadable.rows(connection, statement)
    return Removed((RemovalRecord(row.id, row.at), _parsed((row.detail or {}).get(_NAME))) for row in rows)


def _disjoint(some: Iterable[tuple[int, int, RemovalRecord]]) -> Iterator[tuple[int, int, RemovalRecord]]:
    """Return ranges in order, of which none has a number of an earlier one."""
    end = 0
    for first, last, record in sorted(some):
        if last > end:
            yield max(first, end + 1), last, record
            end = last


def _merged(some: Iterable[IdRange]) -> Iterator[IdRange]:
    """Return the ranges in order, with adjacent ones merged."""
    begun: IdRange | None = None
    for first, end in sorted(some):
        if begun is not None and first <= begun[1] + 1:
            begun = (begun[0], max(begun[1], end))
            continue
        if begun is not None:
            yield begun
        begun = (first, end)
    if begun is not None:
        yield begun


def ranges_text(some: Iterable[IdRange]) -> str:
    """Write ranges of numbers: `1-5,9`."""
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in _merged(some))


def _parsed(text: Any) -> list[IdRange]:
    found: list[IdRange] = []
    for part in text.split(",") if isinstance(text, str) and text else ():
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            found.append((int(first), int(last or first)))
    return found
