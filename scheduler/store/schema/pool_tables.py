"""Tables of shared state: pools, their use, workers, learned durations, and keys."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from duetime.scheduler.store.schema.base import Base, table
from sqlalchemy import ForeignKey, Index, func, select
from sqlalchemy.orm import Mapped, mapped_column


class PoolRow(Base):
    """A declared limit. Without a `spec` it was removed; `declared` is the last configured declaration."""

    __tablename__ = "pools"

    name: Mapped[str] = mapped_column(primary_key=True)
    spec: Mapped[Mapping[str, Any] | None]
    declared: Mapped[Mapping[str, Any] | None]
    revision: Mapped[int]
    updated_at: Mapped[datetime]
    updated_by: Mapped[str]


class UsageRow(Base):
    """Units that one attempt used of one pool: budgets are counted from these rows."""

    __tablename__ = "usage"
    __table_args__ = (Index("usage_by_pool", "pool", "at"), {"sqlite_with_rowid": False})

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"), primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    pool: Mapped[str] = mapped_column(primary_key=True)
    tenant: Mapped[str]
    units: Mapped[float]
    at: Mapped[datetime]


class WorkerRow(Base):
    """A process that runs tasks, with its last report; `seen_at` is the time of that report."""

    __tablename__ = "workers"

    id: Mapped[str] = mapped_column(primary_key=True)
    host: Mapped[str]
    pid: Mapped[int]
    threads: Mapped[int]
    started_at: Mapped[datetime]
    state: Mapped[str]
    running: Mapped[int]
    seen_at: Mapped[datetime]
    actions: Mapped[tuple[str, ...]] = mapped_column(server_default="[]")
    lost_threads: Mapped[int] = mapped_column(server_default="0")


class EstimateRow(Base):
    """Durations of an action of a tenant, learned from successful attempts."""

    __tablename__ = "estimates"
    __table_args__ = ({"sqlite_with_rowid": False},)

    tenant: Mapped[str] = mapped_column(primary_key=True)
    action: Mapped[str] = mapped_column(primary_key=True)
    histogram: Mapped[Mapping[str, Any]]
    weight: Mapped[float]
    updated_at: Mapped[datetime]


class ServerKeyRow(Base):
    """A secret key that all processes of an installation share; a removed one is made anew when it is needed."""

    __tablename__ = "server_keys"
    __table_args__ = ({"sqlite_with_rowid": False},)

    name: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str]


pools = table(PoolRow)
usage = table(UsageRow)
workers = table(WorkerRow)
estimates = table(EstimateRow)
server_keys = table(ServerKeyRow)

POOL_REVISION = select(func.coalesce(func.max(pools.c.revision), 0))
"""The newest revision of any pool: it changes with each declaration."""
