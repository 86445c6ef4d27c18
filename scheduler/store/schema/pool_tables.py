"""The tables of what runs share: pools, what was used of them, workers, and how long actions take."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from duetime.scheduler.store.schema.base import Base, table
from duetime.scheduler.task import Json
from sqlalchemy import ForeignKey, Index, func, select
from sqlalchemy.orm import Mapped, mapped_column


class PoolRow(Base):
    """A limit that was declared. Without a `spec` it was removed; `declared` is what configuration said last."""

    __tablename__ = "pools"

    name: Mapped[str] = mapped_column(primary_key=True)
    spec: Mapped[Mapping[str, Json] | None]
    declared: Mapped[Mapping[str, Json] | None]
    revision: Mapped[int]
    updated_at: Mapped[datetime]
    updated_by: Mapped[str]


class UsageRow(Base):
    """The units of one pool that one attempt really used; budgets are counted from these rows."""

    __tablename__ = "usage"
    __table_args__ = (Index("usage_by_pool", "pool", "at"), {"sqlite_with_rowid": False})

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"), primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    pool: Mapped[str] = mapped_column(primary_key=True)
    tenant: Mapped[str]
    units: Mapped[float]
    at: Mapped[datetime]


class WorkerRow(Base):
    """A process that runs tasks, as it last said of itself; `seen_at` is when that was."""

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
    """How long an action of a tenant takes, as learned from the attempts that succeeded."""

    __tablename__ = "estimates"
    __table_args__ = ({"sqlite_with_rowid": False},)

    tenant: Mapped[str] = mapped_column(primary_key=True)
    action: Mapped[str] = mapped_column(primary_key=True)
    histogram: Mapped[Mapping[str, Json]]
    weight: Mapped[float]
    updated_at: Mapped[datetime]


pools = table(PoolRow)
usage = table(UsageRow)
workers = table(WorkerRow)
estimates = table(EstimateRow)

POOL_REVISION = select(func.coalesce(func.max(pools.c.revision), 0))
"""The newest revision of any pool: it changes with each declaration."""
