"""The table of follow-ups: tasks that failures made."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from duetime.scheduler.store.schema.base import Base, Said, column, table
from duetime.scheduler.store.schema.json_types import JsonValue
from duetime.scheduler.task import State
from sqlalchemy import Index


class FollowUpRow(Base):
    """The task `task_id` was made by the failure of the run `of_run`, one for each such run; with what failed, and why.

    Neither `of_task` nor `of_run` is a foreign key: what failed may be deleted before what it made.
    """

    __tablename__ = "follow_ups"
    __table_args__ = (Index("follow_ups_of_run", "of_run", unique=True), Index("follow_ups_of_task", "of_task", "at"))

    task_id: str = column(primary_key=True)
    tenant: str
    of_task: str
    of_run: str
    title: Said
    state: State
    why: Said
    result: Any | None = column(JsonValue())
    at: datetime


follow_ups = table(FollowUpRow)
