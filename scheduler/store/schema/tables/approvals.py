"""The table of approvals: questions whether a run may go."""

from __future__ import annotations

from datetime import datetime

from duetime.scheduler.store.schema.base import Base, Said, column, partial, table
from duetime.scheduler.store.schema.types import ClosedSet
from duetime.scheduler.task import ApprovalAnswer


class ApprovalRow(Base):
    """A question whether a run may go, asked by its task (`attempt` 0) or by an attempt, and its answer."""

    __tablename__ = "approvals"
    __table_args__ = (
        partial("approvals_open", "ends_at", where="closed_at IS NULL"),
        {"sqlite_with_rowid": False},
    )

    run_id: str = column(primary_key=True)
    attempt: int = column(primary_key=True)
    question: Said | None
    default: ApprovalAnswer = column(ClosedSet(ApprovalAnswer))
    asked_at: datetime
    ends_at: datetime | None
    closed_at: datetime | None
    answer: ApprovalAnswer | None = column(ClosedSet(ApprovalAnswer))
    answered_by: str | None
    reason: Said | None


approvals = table(ApprovalRow)
