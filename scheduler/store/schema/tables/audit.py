"""Tables of the audit log."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from duetime.scheduler.audit.entry import AuditKind
from duetime.scheduler.store.schema.base import Base, Said, Serial, column, partial, table
from duetime.scheduler.store.schema.types import ThisTransaction
from sqlalchemy import BigInteger, CheckConstraint, Index


class AuditEntryRow(Base):
    """An act of a caller apart from task changes. `tx` orders commits where ids cannot, as in `events`."""

    __tablename__ = "audit_entries"
    __table_args__ = (
        Index("audit_entries_by_time", "tenant", "at", "id"),
        partial("audit_entries_by_tx", "tx", "id", where="tx IS NOT NULL"),
        {"sqlite_autoincrement": True},
    )

    id: int = column(Serial, primary_key=True)
    tenant: str
    at: datetime
    kind: AuditKind
    actor: Said
    actor_tenant: str | None
    via: Said | None
    subject: Said | None
    reason: Said | None
    detail: Mapping[str, Any] | None
    tx: int | None = column(BigInteger(), server_default=ThisTransaction())


class AuditSegmentRow(Base):
    """A part of a tenant's hash chain. `entries` are the numbers and digests of its rows; rows may go, these stay.

    No event of it is older than `oldest_at`; without one that is not known.
    """

    __tablename__ = "audit_segments"

    tenant: str = column(primary_key=True)
    number: int = column(primary_key=True, autoincrement=False)
    first: int = column(BigInteger())
    count: int
    sealed_at: datetime
    entries: bytes
    key_id: str | None
    previous: str
    hash: str
    oldest_at: datetime | None


class AuditHeadRow(Base):
    """The end of a tenant's hash chain."""

    __tablename__ = "audit_heads"
    __table_args__ = ({"sqlite_with_rowid": False},)

    tenant: str = column(primary_key=True)
    segments: int
    entries: int = column(BigInteger())
    hash: str
    key_id: str | None


class AuditProgressRow(Base):
    """The rows up to which all is in the chains. There is one row at most; who seals changes it or seals nothing."""

    __tablename__ = "audit_progress"
    __table_args__ = (CheckConstraint("id = 1", name="single"),)

    id: int = column(primary_key=True, autoincrement=False)
    event_tx: int = column(BigInteger())
    event_id: int = column(BigInteger())
    entry_tx: int = column(BigInteger())
    entry_id: int = column(BigInteger())


audit_entries = table(AuditEntryRow)
audit_segments = table(AuditSegmentRow)
audit_heads = table(AuditHeadRow)
audit_progress = table(AuditProgressRow)
