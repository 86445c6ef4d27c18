"""Cancelled tasks without side effects: nothing else ended with them, so an undo only has to restore their runs."""

from __future__ import annotations

from collections.abc import Sequence

from duetime.scheduler.store.schema.rows import IS_CURRENT
from duetime.scheduler.store.schema.tables.approvals import approvals
from duetime.scheduler.store.schema.tables.chains import dependencies
from duetime.scheduler.store.schema.tables.events import events
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskRecord
from sqlalchemy import BindParameter, Connection, bindparam, select, true, union_all

_IDS: BindParameter[str] = bindparam("task_ids", expanding=True)
_side_run = runs.alias("side_run")
_TIED = union_all(
    select(dependencies.c.upstream_id).where(dependencies.c.upstream_id.in_(_IDS)),
    select(runs.c.task_id).join_from(runs, approvals, approvals.c.run_id == runs.c.id).where(runs.c.task_id.in_(_IDS)),
    select(events.c.task_id).where(
        events.c.task_id.in_(_IDS), events.c.from_state == State.WAITING, events.c.to_state == State.CANCELLED
    ),
    select(runs.c.task_id)
    .join_from(runs, _side_run, _side_run.c.task_id == runs.c.task_id)
    .where(runs.c.task_id.in_(_IDS), IS_CURRENT, _side_run.c.id != runs.c.id)
    .where((_side_run.c.state == State.CANCELLED).is_(true()), _side_run.c.ended_at >= runs.c.ended_at),
)
"""Tasks that others come after, that were asked for, whose runs had waited, or whose side runs ended with them."""


def among(connection: Connection, records: Sequence[TaskRecord]) -> frozenset[str]:
    """Return the cancelled tasks that stand alone; their rows are locked, so that they stay so."""
    cancelled = frozenset(each.task.id for each in records if each.run.state is State.CANCELLED)
    if not cancelled:
        return cancelled
    return cancelled.difference(connection.execute(_TIED, {"task_ids": sorted(cancelled)}).scalars())
