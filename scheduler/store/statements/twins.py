"""The twin of a new task: an open one of the same owner with the same title and time."""

from __future__ import annotations

from datetime import datetime

from duetime.scheduler.store.schema.rows import IS_CURRENT, folded, twin_hash
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.sql.positional import PositionalStatement
from duetime.scheduler.store.sql.task_filter import OPEN_SECTION, PER_SECTION
from sqlalchemy import Connection, and_, bindparam, select
from sqlalchemy.dialects import sqlite

_SAME_TASK = (
    select(
        and_(
            tasks.c.tenant == bindparam("of"),
            tasks.c.owner == bindparam("by"),
            tasks.c.title_folded == bindparam("named"),
        )
    )
    .where(tasks.c.id == runs.c.task_id)
    .correlate(runs)
)
SIMILAR_TASKS = (  # by its hash alone: whatever else stands at the same time costs nothing
    select(runs.c.task_id)
    .where(runs.c.twin_hash == bindparam("alike"), runs.c.scheduled_for == bindparam("at"))
    .where(IS_CURRENT, PER_SECTION[OPEN_SECTION], runs.c.listed_at == bindparam("at"), _SAME_TASK.scalar_subquery())
    .limit(1)
)
_SIMILAR_ON_SQLITE = PositionalStatement.of(SIMILAR_TASKS, sqlite.dialect())


def similar(connection: Connection, tenant: str, owner: str, title: str, scheduled_for: datetime) -> str | None:
    """Return the id of an open task with the same title, time and owner."""
    alike = twin_hash(tenant, owner, title)
    same = {"of": tenant, "by": owner, "named": folded(title), "alike": alike, "at": scheduled_for}
    return next((task_id for (task_id,) in _SIMILAR_ON_SQLITE.rows(connection, same)), None)
