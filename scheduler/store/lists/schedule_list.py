"""Lists the tasks that recur, newest first: a page of one tenant's, or of all tenants' together."""

from __future__ import annotations

from collections.abc import Sequence

from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.rows import IS_CURRENT, folded
from duetime.scheduler.store.schema.tables.tasks import tasks
from duetime.scheduler.store.schema.values import from_microseconds
from duetime.scheduler.store.statements import read
from duetime.scheduler.views import TaskRecord
from sqlalchemy import Connection, literal_column, tuple_

_KEY = (tasks.c.created_at, tasks.c.id)
_TYPES = [column.type for column in _KEY]
_RECURRING = read.TASK_AND_RUN.where(
    tasks.c.repeat.is_not(None), IS_CURRENT, literal_column("runs.ended_at IS NULL")
).order_by(*(column.desc() for column in _KEY))


def page(
    connection: Connection, tenant: str | None, words: str | None, *, limit: int, behind: Sequence[int | str]
) -> list[TaskRecord]:
    """Return the next recurring tasks behind a position that still have runs to come; `words` are in their titles."""
    statement = _RECURRING.limit(limit)
    if tenant is not None:
        statement = statement.where(tasks.c.tenant == tenant)
    if words:
        statement = statement.where(tasks.c.title_folded.contains(folded(words), autoescape=True))
    if behind:
        place = (from_microseconds(int(behind[0])), str(behind[1]))
        statement = statement.where(tuple_(*_KEY) < tuple_(*place, types=_TYPES))
    return read.records_of(connection, *unreadable.every(connection, statement))
