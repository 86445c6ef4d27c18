"""The table of dependencies between tasks."""

from __future__ import annotations

from datetime import datetime

from duetime.scheduler.request import AfterFailure
from duetime.scheduler.store.schema.base import Base, column, partial, table
from duetime.scheduler.store.schema.types import ClosedSet
from duetime.scheduler.task import State
from sqlalchemy import Index


class DependencyRow(Base):
    """A task comes after another one, `upstream_id`, whose last run ended at `closed_at` with `outcome`.

    `ended_run` is the waiting run that this outcome ended; it comes back when the upstream runs again. Neither id is a
    foreign key: like events, dependencies are deleted with their task.
    """

    __tablename__ = "dependencies"
    __table_args__ = (
        Index("dependencies_by_upstream", "upstream_id", "task_id"),
        partial("dependencies_open", "upstream_id", where="closed_at IS NULL"),
        {"sqlite_with_rowid": False},
    )

    task_id: str = column(primary_key=True)
    upstream_id: str = column(primary_key=True)
    tenant: str
    after_failure: AfterFailure = column(ClosedSet(AfterFailure))
    closed_at: datetime | None
    outcome: State | None
    ended_run: str | None


dependencies = table(DependencyRow)
