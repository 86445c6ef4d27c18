"""Reads the results of tasks that have ended: tasks behind them read these, and schemas are compared with them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.rows import IS_CURRENT
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.task import Json
from sqlalchemy import BindParameter, Connection, Select, bindparam, func, select

MAX_RUNS_COMPARED = 100
"""Newest runs of a task among which the last one to end is found: a long history costs nothing."""

_past, _newest = runs.alias("past"), runs.alias("newest")
_NEWEST_NUMBER = select(func.max(_newest.c.number)).where(_newest.c.task_id == tasks.c.id).correlate(tasks)
_LAST_TO_END = (
    select(_past.c.id)
    .where(_past.c.task_id == tasks.c.id, _past.c.ended_at.is_not(None), _past.c.started_at.is_not(None))
    .where(_past.c.number > _NEWEST_NUMBER.scalar_subquery() - MAX_RUNS_COMPARED)
    .order_by(_past.c.ended_at.desc(), _past.c.generation.desc())
    .limit(1)
)
_IDS: BindParameter[str] = bindparam("task_ids", expanding=True)
_LAST = (
    select(tasks.c.id, runs.c.result)
    .join_from(tasks, runs, runs.c.id == _LAST_TO_END.scalar_subquery())
    .where(tasks.c.id.in_(_IDS))
)
_CURRENT = select(runs.c.task_id.label("id"), runs.c.result).where(runs.c.task_id.in_(_IDS), IS_CURRENT)


def last(connection: Connection, task_ids: Iterable[str]) -> dict[str, Json]:
    """Return the results of the runs that ended last, by task, whatever their tenant: one may overtake another."""
    return _results(connection, _LAST, task_ids)


def current(connection: Connection, task_ids: Iterable[str]) -> dict[str, Json]:
    """Return the results of the current runs of steps: replays of earlier generations decide nothing here."""
    return _results(connection, _CURRENT, task_ids)


def _results(connection: Connection, statement: Select[Any], task_ids: Iterable[str]) -> dict[str, Json]:
    given = {"task_ids": sorted(task_ids)}
    found = unreadable.rows(connection, statement, given) if given["task_ids"] else ()
    return {row.id: row.result for row in found}
