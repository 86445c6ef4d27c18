"""The tables of signals: those that were received, the waits for them, and the addresses of tasks."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from duetime.scheduler.store.schema.base import Base, Said, column, partial, table
from duetime.scheduler.store.schema.types import ClosedSet
from duetime.scheduler.waits.signal import OnTimeout
from sqlalchemy import Index


class SignalRow(Base):
    """A signal of a tenant, kept for a week. `freed` and `matched` are what the first call with its id answered."""

    __tablename__ = "signals"
    __table_args__ = (
        Index("signals_by_name", "tenant", "name", "at"),
        Index("signals_by_time", "tenant", "at"),
        Index("signals_by_age", "at"),
        {"sqlite_with_rowid": False},
    )

    tenant: str = column(primary_key=True)
    id: str = column(primary_key=True)
    name: str
    data: Mapping[str, Any]
    at: datetime
    actor: Said
    freed: int
    matched: int


class SignalWaitRow(Base):
    """A wait of a task before its first start, or of a run that has started: `waiter_id` is the id of either.

    It is closed by a signal, of which it keeps a copy, or at `until` without one. Like dependencies, it is deleted with
    its task.
    """

    __tablename__ = "signal_waits"
    __table_args__ = (
        Index("signal_waits_by_task", "task_id"),
        partial("signal_waits_open", "tenant", "name", "waiter_id", where="closed_at IS NULL"),
        partial("signal_waits_until", "until", where="closed_at IS NULL"),
        {"sqlite_with_rowid": False},
    )

    waiter_id: str = column(primary_key=True)
    task_id: str
    tenant: str
    name: str
    wanted: Mapping[str, Any]
    since: datetime
    until: datetime
    on_timeout: OnTimeout = column(ClosedSet(OnTimeout))
    at_once: bool
    closed_at: datetime | None
    signal_id: str | None
    signal_at: datetime | None
    data: Mapping[str, Any] | None


class FireAddressRow(Base):
    """The fire address of a task: `digest` is that of its secret, which is not stored. It is deleted with its task."""

    __tablename__ = "fire_addresses"
    __table_args__ = (Index("fire_addresses_by_task", "task_id", unique=True), {"sqlite_with_rowid": False})

    id: str = column(primary_key=True)
    tenant: str
    task_id: str
    digest: str
    made_at: datetime
    made_by: Said


signals = table(SignalRow)
signal_waits = table(SignalWaitRow)
fire_addresses = table(FireAddressRow)
