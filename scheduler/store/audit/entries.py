"""Writes audit entries, in the transaction of the act where that is one of the database."""

from __future__ import annotations

from datetime import datetime

from duetime.scheduler.audit.entry import AuditEntry
from duetime.scheduler.store.schema.rows import columns_of
from duetime.scheduler.store.schema.tables.audit import audit_entries
from sqlalchemy import Connection, insert

ENTRY_FIELDS = columns_of(AuditEntry, audit_entries)
_GIVEN = [column.name for column in ENTRY_FIELDS if column.name not in ("id", "at")]


def store(connection: Connection, entry: AuditEntry, now: datetime) -> None:
    """Store an entry of this moment."""
    connection.execute(insert(audit_entries), {**{name: getattr(entry, name) for name in _GIVEN}, "at": now})
