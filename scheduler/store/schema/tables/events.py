"""The tables of what happened, and of calls that may come again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from duetime.scheduler.events import EventKind
from duetime.scheduler.store.schema.base import Base, Said, Serial, column, partial, table
from duetime.scheduler.store.schema.types import ThisTransaction
from duetime.scheduler.task import State
from sqlalchemy import BigInteger, Index


class EventRow(Base):
    """One change of a task, its actor and reason; `revision` is the task's after it. `tx` orders commits.

    Its task and run are no foreign keys: these would cost each schedule call a tenth of its time in the server.
    """

    __tablename__ = "events"
    __table_args__ = (
        Index("events_by_task", "task_id", "seq", unique=True),
        Index("events_by_time", "tenant", "at", "id"),
        partial("events_by_tx", "tx", "id", where="tx IS NOT NULL"),
        {"sqlite_autoincrement": True},
    )

    id: int = column(Serial, primary_key=True)
    tenant: str
    task_id: str
    run_id: str | None
    seq: int
    at: datetime
    kind: EventKind
    actor: Said
    reason: Said | None
    from_state: State | None
    to_state: State | None
    attempt: int | None
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    revision: int | None
    tx: int | None = column(BigInteger(), server_default=ThisTransaction())
    via: Said | None


class KeyRow(Base):
    """An idempotency key and the content of its first use; `revision` is the task's after the change that it names.

    A key without a `revision` names the call that made the task. `look_at` is when it may expire: it is examined then.
    """

    __tablename__ = "idempotency_keys"
    __table_args__ = (
        Index("idempotency_keys_by_look", "look_at"),
        {"sqlite_with_rowid": False},
    )

    tenant: str = column(primary_key=True)
    key: str = column(primary_key=True)
    task_id: str
    fingerprint: Mapping[str, Any]
    expires_at: datetime | None
    derived: bool
    revision: int | None
    look_at: datetime | None


events = table(EventRow)
keys = table(KeyRow)
