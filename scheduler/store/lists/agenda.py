"""A time window in the future: the open tasks that are due in it, and recurring ones that will be due again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.lists.task_list import ListReader, in_order, start
from duetime.scheduler.store.schema.damage import DamagedValue
from duetime.scheduler.store.schema.rows import IS_CURRENT, listed_at
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.schema.values import from_microseconds, to_microseconds
from duetime.scheduler.store.sql.cursors import Position
from duetime.scheduler.store.sql.task_filter import ENDED_SECTION, OPEN_SECTION, PER_SECTION, of_task
from duetime.scheduler.store.statements import read
from duetime.scheduler.store.text_index.text_search import Matches, titled_by_reading
from duetime.scheduler.views import TaskFilter, TaskRecord
from sqlalchemy import Connection, false, or_, select

MAX_OPEN_RUNS_SEARCHED = 5_000
"""Open runs, the earliest first, among which recurring tasks are searched."""

MAX_RECURRING_TASKS = 200
"""Recurring tasks whose later occurrences are listed."""

ListPlace = tuple[datetime, str]
"""A place in the order of a list: a time, and the id of a task."""


class Agenda(NamedTuple):
    """The open tasks behind a place, each with its time in the list; and recurring ones, not `complete` if cut."""

    rows: Sequence[tuple[datetime, TaskRecord]]
    behind: ListPlace | None
    recurring: Sequence[TaskRecord]
    complete: bool


_GOES_ON = or_(runs.c.cancel_requested == false(), runs.c.overtaken_at.is_not(None))
"""Runs whose series goes on: one that gives way to the next is asked to stop as well."""


def agenda(
    connection: Connection, tenant: str, where: TaskFilter, matches: Matches | None, *, limit: int, behind: Position
) -> Agenda | None:
    """Return the next `limit` open tasks of a window and its recurring ones; None behind the open tasks."""
    section, *behind = behind or start(where)
    if section != OPEN_SECTION:
        return None
    reader = ListReader(connection, tenant, where, matches)
    rows = reader.rows(OPEN_SECTION, behind, limit)
    records = read.records_of(connection, rows, any(reader.damaged))
    place = (from_microseconds(int(behind[0])), str(behind[1])) if behind else None
    found, complete = _recurring(connection, tenant, where)
    return Agenda(
        [(_place(row.listed_at, record), record) for row, record in zip(rows, records, strict=True)],
        place,
        found,
        complete,
    )


def _place(at: datetime | DamagedValue, record: TaskRecord) -> datetime:
    return listed_at(record.run) if isinstance(at, DamagedValue) else at


def position_behind(place: ListPlace | None) -> Position:
    """Return the position behind a place among the open tasks; behind all of them for None."""
    return [OPEN_SECTION, to_microseconds(place[0]), place[1]] if place else [ENDED_SECTION]


def _recurring(connection: Connection, tenant: str, where: TaskFilter) -> tuple[Sequence[TaskRecord], bool]:
    due = (runs.c.tenant == tenant, IS_CURRENT, PER_SECTION[OPEN_SECTION], runs.c.listed_at < where.before)
    earliest = in_order(select(runs.c.id).where(*due), OPEN_SECTION, [])
    beyond = connection.execute(earliest.limit(1).offset(MAX_OPEN_RUNS_SEARCHED)).first()
    statement = (
        read.TASK_AND_RUN.where(runs.c.id.in_(earliest.limit(MAX_OPEN_RUNS_SEARCHED)))
        .where(tasks.c.repeat.is_not(None), tasks.c.paused == false(), _GOES_ON)
        .where(*of_task(tenant, where, titled_by_reading))
    )
    statement = in_order(statement, OPEN_SECTION, []).limit(MAX_RECURRING_TASKS + 1)
    rows, damaged = unreadable.every(connection, statement)
    return read.records_of(connection, rows[:MAX_RECURRING_TASKS], damaged), beyond is None and len(
        rows
    ) <= MAX_RECURRING_TASKS
