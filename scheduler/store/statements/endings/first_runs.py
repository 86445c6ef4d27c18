"""The runs with which a generation of a chain began: one of each step. Replays of a step have the same number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from duetime.scheduler.rules.states import NOT_RUN_PREFIX
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.task import Run, State
from sqlalchemy import BindParameter, ColumnElement, Connection, and_, bindparam, case, func, not_, or_, select, true

NOT_LEFT_OUT: ColumnElement[bool] = or_(
    runs.c.state != State.SKIPPED, runs.c.error.is_not(None), runs.c.summary.is_not(None)
)
"""A generation that is left out whole uses up no number: the next one has the same. A step that is skipped says why."""

_IDS: BindParameter[Sequence[str]] = bindparam("task_ids", expanding=True)
_NOT_RUN: ColumnElement[bool] = func.coalesce(runs.c.summary, "").startswith(NOT_RUN_PREFIX)
_WAS_TAKEN_AWAY: ColumnElement[bool] = and_(
    (runs.c.state == State.CANCELLED).is_(true()), runs.c.started_at.is_(None), not_(_NOT_RUN)
)
"""A cancel ended it before it started: a later run of its generation is there because that was taken back."""

_FIRST = (
    select(func.coalesce(func.min(case((not_(_WAS_TAKEN_AWAY), runs.c.id))), func.min(runs.c.id)))
    .where(runs.c.task_id.in_(_IDS), runs.c.number == bindparam("of_number"), NOT_LEFT_OUT)
    .group_by(runs.c.task_id)
)
"""Ids sort by the time at which they were made, and a replay is made after the run that it does again."""

_ENDS = select(runs.c.id, runs.c.state, runs.c.started_at, runs.c.ended_at).where(runs.c.id.in_(_FIRST))


class FirstRun(NamedTuple):
    """The end of the first run of a step, and whether it had started; `state` is None while it is open."""

    run_id: str
    state: State | None
    started: bool


def is_first(connection: Connection, run: Run) -> bool:
    """Whether a run is the one that its task had when the generation began."""
    given = {"task_ids": [run.task_id], "of_number": run.number}
    return run.id in connection.execute(_FIRST, given).scalars().all()


def ends(connection: Connection, task_ids: Sequence[str], number: int) -> list[FirstRun]:
    """Return how the first runs of these steps ended in a generation."""
    rows = connection.execute(_ENDS, {"task_ids": list(task_ids), "of_number": number})
    return [FirstRun(row.id, row.state if row.ended_at else None, row.started_at is not None) for row in rows]
