"""Tables of the audit log."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from duetime.scheduler.audit.entry import AuditKind
from duetime.scheduler.store.schema.base import Base, Said, Serial, column, partial, table
from duetime.scheduler.store.schema.types import ThisTransaction
from sqlalchemy import BigInteger, Index


class AuditEntryRow(Base):
    """An act of a caller that is no event of a task. `tx` orders commits where ids cannot, as in `events`."""

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


audit_entries = table(AuditEntryRow)
