"""The table of retention: when each kind of row was looked through last, and what came of it."""

from __future__ import annotations

from datetime import datetime

from duetime.scheduler.store.schema.base import Base, Said, column, table
from sqlalchemy import BigInteger


class SweepRow(Base):
    """The last sweep over the rows of one kind; `problem` says why it did not end."""

    __tablename__ = "retention_sweeps"
    __table_args__ = ({"sqlite_with_rowid": False},)

    kind: str = column(primary_key=True)
    finished_at: datetime
    deleted: int = column(BigInteger())
    problem: Said | None


sweeps = table(SweepRow)
