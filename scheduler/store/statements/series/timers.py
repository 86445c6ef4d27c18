"""When the next series continues whatever its run does: runs that the next occurrence overtakes."""

from __future__ import annotations

from typing import Any

from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.statements.ready_runs import RUNS_OF_TASKS
from sqlalchemy import ColumnElement, Select, false, literal_column, select

_OPEN: ColumnElement[bool] = literal_column(
    "runs.overtaken_at IS NOT NULL AND runs.ended_at IS NULL AND NOT runs.cancel_requested AND NOT runs.paused"
)
"""Literal, as in the partial index; else SQLite does not use it."""

OVERTAKABLE = (_OPEN, runs.c.first_ready_at.is_not(None), tasks.c.paused == false())
"""Runs that may have started: what is due and was not looked at yet was missed, and runs itself."""

NEXT_OVERTAKE: Select[Any] = (
    select(runs.c.overtaken_at).select_from(RUNS_OF_TASKS).where(*OVERTAKABLE).order_by(runs.c.overtaken_at).limit(1)
)
