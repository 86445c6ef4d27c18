"""The tables of policies: versions of the policy of order, its shadow, its decisions, and the sweeps of retention."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from duetime.scheduler.store.schema.base import Base, Said, column, table
from sqlalchemy import BigInteger, Index, func, select


class PolicyRow(Base):
    """A version of the policy, with its whole content; the newest is in force, and none is ever changed."""

    __tablename__ = "policies"
    __table_args__ = ({"sqlite_with_rowid": False},)

    version: int = column(primary_key=True, autoincrement=False)
    content: Mapping[str, Any]
    at: datetime
    actor: Said
    via: Said | None
    reason: Said | None


class SweepRow(Base):
    """The last sweep of retention over the rows of one kind; `problem` says why it did not end."""

    __tablename__ = "retention_sweeps"
    __table_args__ = ({"sqlite_with_rowid": False},)

    kind: str = column(primary_key=True)
    finished_at: datetime
    deleted: int = column(BigInteger())
    problem: Said | None


class DecisionRow(Base):
    """A recorded look of the queue at a run. Ids sort by time; `detail` is what it saw."""

    __tablename__ = "decisions"
    __table_args__ = (
        Index("decisions_by_task", "task_id", "id"),
        Index("decisions_by_time", "at"),
        {"sqlite_with_rowid": False},
    )

    id: str = column(primary_key=True)
    at: datetime
    tenant: str
    task_id: str
    run_id: str
    worker: str
    detail: Mapping[str, Any]


class ShadowPolicyRow(Base):
    """The policy that is compared with what was decided and is not in force; one row at most."""

    __tablename__ = "shadow_policies"
    __table_args__ = ({"sqlite_with_rowid": False},)

    id: int = column(primary_key=True, autoincrement=False)
    content: Mapping[str, Any]
    at: datetime
    actor: Said
    via: Said | None
    reason: Said | None


policies = table(PolicyRow)
decisions = table(DecisionRow)
shadow_policies = table(ShadowPolicyRow)
sweeps = table(SweepRow)

NEWEST_POLICY = select(func.coalesce(func.max(policies.c.version), 0))
"""The newest version of the policy, 0 before the first."""
