"""When the next series continues whatever its run does: runs that the next occurrence overtakes."""

from __future__ import annotations

from typing import Any

from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.statements.ready_runs import RUNS_OF_TASKS
from sqlalchemy import ColumnElement, Select, false, literal_column, or_, select

_OPEN: ColumnElement[bool] = literal_column(
    "runs.overtaken_at IS NOT NULL AND runs.ended_at IS NULL AND NOT runs.cancel_requested AND NOT runs.paused"
)
"""Literal, as in the partial index; else SQLite does not use it."""

_MAY_HAVE_STARTED = or_(runs.c.first_ready_at.is_not(None), tasks.c.repeat.is_(None))
"""A run that is due and was not looked at yet was missed, and runs itself. A step gives way with those before it."""

OVERTAKABLE = (_OPEN, _MAY_HAVE_STARTED, tasks.c.paused == false())

NEXT_OVERTAKE: Select[Any] = (
    select(runs.c.overtaken_at).select_from(RUNS_OF_TASKS).where(*OVERTAKABLE).order_by(runs.c.overtaken_at).limit(1)
)
