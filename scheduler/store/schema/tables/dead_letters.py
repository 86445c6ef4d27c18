"""The table of dead letters."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from duetime.scheduler.store.schema.base import Base, Said, column, partial, table
from sqlalchemy import ForeignKey, Index


class DeadLetterRow(Base):
    """A run that is out of attempts, with the payload as it was.

    `closed_at` is when it was replayed, as the run `replayed_as` by the `replay_number`th replay, or discarded.
    """

    __tablename__ = "dead_letters"
    __table_args__ = (
        Index("dead_letters_by_time", "tenant", "at", "run_id"),
        Index("dead_letters_by_task", "task_id", "tenant", "closed_at"),
        Index("dead_letters_by_state", "tenant", "closed_at", "at", "run_id"),
        partial("dead_letters_by_replay", "replayed_as", where="replayed_as IS NOT NULL"),
    )

    run_id: str = column(ForeignKey("runs.id"), primary_key=True)
    task_id: str
    tenant: str
    at: datetime
    reason: Said
    payload: Mapping[str, Any]
    closed_at: datetime | None
    replayed_as: str | None
    replay_number: int | None


dead_letters = table(DeadLetterRow)
