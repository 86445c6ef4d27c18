"""The tables of policies: the versions of the policy of order, and the sweeps of retention."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from duetime.scheduler.store.schema.base import Base, Said, column, table
from sqlalchemy import BigInteger, func, select


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


policies = table(PolicyRow)
sweeps = table(SweepRow)

NEWEST_POLICY = select(func.coalesce(func.max(policies.c.version), 0))
"""The newest version of the policy, 0 before the first."""
