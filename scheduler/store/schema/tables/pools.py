"""Tables of shared state: pools, their use, workers and the runner, learned durations, and keys."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from duetime.scheduler.store.schema.base import Base, Said, column, partial, table
from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Index, func, select


class PoolRow(Base):
    """A declared limit. Without a `spec` it was removed; `declared` is the last configured declaration.

    `limit_set_at` is when its kind, capacity or window was set; None where only an older version wrote it.
    """

    __tablename__ = "pools"

    name: str = column(primary_key=True)
    spec: Mapping[str, Any] | None
    declared: Mapping[str, Any] | None
    revision: int
    updated_at: datetime
    updated_by: str
    limit_set_at: datetime | None


class UsageRow(Base):
    """Units that one attempt used of one pool, from which budgets are counted; `cost` is in millionths.

    The cost is that of the price when the attempt ended; without a price there is none.
    """

    __tablename__ = "usage"
    __table_args__ = (
        Index("usage_by_pool", "pool", "at"),
        partial("usage_by_cost", "tenant", "at", where="cost IS NOT NULL"),
        {"sqlite_with_rowid": False},
    )

    run_id: str = column(ForeignKey("runs.id"), primary_key=True)
    attempt: int = column(primary_key=True, autoincrement=False)
    pool: str = column(primary_key=True)
    tenant: str
    units: float
    at: datetime
    cost: int | None = column(BigInteger())


class WorkerRow(Base):
    """A process that runs tasks, with its last report at `seen_at`; `drain` is asked of it by others."""

    __tablename__ = "workers"

    id: str = column(primary_key=True)
    host: str
    pid: int
    threads: int
    started_at: datetime
    state: str
    running: int
    seen_at: datetime
    actions: tuple[str, ...] = column(server_default="[]")
    lost_threads: int = column(server_default="0")
    drain: str | None
    key_ids: tuple[str, ...] = column(server_default="[]")


class ExternalWorkerRow(Base):
    """A caller that claims runs over MCP, as it last called; it works for all tenants where it is `everywhere`."""

    __tablename__ = "external_workers"
    __table_args__ = ({"sqlite_with_rowid": False},)

    tenant: str = column(primary_key=True)
    user: str = column(primary_key=True)
    client: Said | None
    everywhere: bool
    actions: tuple[str, ...]
    started_at: datetime
    seen_at: datetime


class RunnerRow(Base):
    """The one process that runs tasks; each new one raises the epoch. There is one row at most."""

    __tablename__ = "runner"
    __table_args__ = (CheckConstraint("id = 1", name="single"),)

    id: int = column(primary_key=True, autoincrement=False)
    epoch: int
    pid: int
    endpoint: str
    token: str
    started_at: datetime


class EstimateRow(Base):
    """Durations of an action of a tenant, learned from successful attempts."""

    __tablename__ = "estimates"
    __table_args__ = ({"sqlite_with_rowid": False},)

    tenant: str = column(primary_key=True)
    action: str = column(primary_key=True)
    histogram: Mapping[str, Any]
    weight: float
    updated_at: datetime


class ServerKeyRow(Base):
    """A secret key that all processes of an installation share; a removed one is created again when it is needed."""

    __tablename__ = "server_keys"
    __table_args__ = ({"sqlite_with_rowid": False},)

    name: str = column(primary_key=True)
    key: str


class ApiKeyRow(Base):
    """An API key; of its secret only the digest is kept."""

    __tablename__ = "api_keys"
    __table_args__ = ({"sqlite_with_rowid": False},)

    id: str = column(primary_key=True)
    tenant: str
    user: Said
    scopes: tuple[str, ...]
    name: Said
    digest: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


pools = table(PoolRow)
usage = table(UsageRow)
workers = table(WorkerRow)
external_workers = table(ExternalWorkerRow)
runner = table(RunnerRow)
estimates = table(EstimateRow)
server_keys = table(ServerKeyRow)
api_keys = table(ApiKeyRow)

POOL_REVISION = select(func.coalesce(func.max(pools.c.revision), 0))
"""The newest revision of any pool: it changes with each declaration."""
