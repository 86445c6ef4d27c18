"""Finds tasks that a list shows by a run next to their current one: it runs, or starts before the current run.

In Python: `foresight.start_times.extra_run`. The order of two runs depends on their times and not on now. So a task
keeps its place while a caller reads page after page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.rows import IS_CURRENT
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.sql.task_filter import (
    BLOCKED_RUN,
    OPEN_SECTION,
    PER_SECTION,
    in_time,
    is_in_states,
    meets,
    of_task,
)
from duetime.scheduler.store.statements import read
from duetime.scheduler.store.statements.ready_runs import RUNS_OF_TASKS
from duetime.scheduler.store.text_index import text_search
from duetime.scheduler.store.text_index.text_search import Condition, Matches, titled_by_reading
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskFilter
from sqlalchemy import Connection, Select, Subquery, and_, case, false, func, literal_column, not_, or_, select

ListKey = Sequence[Any]
"""The columns of a list's order: a time, and the id of a task."""

_RANKED = (State.RUNNING, State.READY, State.SCHEDULED)
EXTRA_RUN_STATES = frozenset(_RANKED)
"""States of the runs by which tasks are shown; of several runs, the first state stands for a task."""

SIDE_RUN = runs.alias("side")
"""A run next to the current one of its task."""

_IS_SIDE_RUN: Condition = literal_column("NOT side.current AND side.ended_at IS NULL")  # literal, as in its index
_IS_HELD = and_(tasks.c.paused, tasks.c.paused_until.is_(None))
_STARTS_FIRST = and_(
    SIDE_RUN.c.state.in_((State.SCHEDULED, State.READY)), SIDE_RUN.c.listed_at < runs.c.listed_at, not_(_IS_HELD)
)
_IS_STOPPING = and_(runs.c.cancel_requested, runs.c.overtaken_at.is_(None))
_NEEDS_ITS_USER = or_(_IS_STOPPING, func.coalesce(BLOCKED_RUN, false()))
_COMES_FIRST = and_(
    SIDE_RUN.c.cancel_requested == false(),
    or_(SIDE_RUN.c.state == State.RUNNING, _STARTS_FIRST),
    *(IS_CURRENT, PER_SECTION[OPEN_SECTION], runs.c.state != State.RUNNING),
)


def any_of(connection: Connection, tenant: str, where: TaskFilter) -> bool:
    """Whether a list of open tasks has to look for these: a tenant has few runs next to current ones, or none."""
    if not meets(where, EXTRA_RUN_STATES):
        return False
    found = select(SIDE_RUN.c.id).where(*is_side_run_of(tenant)).limit(1)
    return bool(unreadable.rows(connection, found))


def shown(
    connection: Connection, tenant: str, where: TaskFilter, matches: Matches | None
) -> tuple[Select[Any], ListKey]:
    """Select the tasks of a filter that are shown by such a run, with its time as `listed_at`; and the list's key.

    The run is in the filter's states and within its bounds, and the current run is within them as well.
    """
    first = _first(tenant, where)
    statement = read.TASK_AND_RUN.join(first, first.c.task_id == runs.c.task_id).add_columns(first.c.listed_at)
    among = _among(connection, tenant, where, matches)
    return statement.where(*among), (first.c.listed_at, first.c.task_id)


def not_shown(tenant: str, where: TaskFilter) -> Condition:
    """Whether a task is listed by its current run."""
    return runs.c.task_id.not_in(select(_first(tenant, where).c.task_id))


def counted(
    connection: Connection, tenant: str, where: TaskFilter, matches: Matches | None, most: int
) -> Counter[State]:
    """Count up to `most` tasks that the filter finds by such a run alone: their current run is in another state."""
    if not where.states or not meets(where, EXTRA_RUN_STATES):
        return Counter()
    first, others = _first(tenant, where), not_(is_in_states(where))
    found = select(first.c.rank).select_from(RUNS_OF_TASKS.join(first, first.c.task_id == runs.c.task_id))
    found = found.where(*_among(connection, tenant, where, matches), others).limit(most)
    return Counter(_RANKED[rank] for (rank,) in unreadable.rows(connection, found))


def _among(connection: Connection, tenant: str, where: TaskFilter, matches: Matches | None) -> Sequence[Condition]:
    known = matches.ids if matches and matches.complete else None
    named = [] if known is None else [text_search.among(connection, runs.c.task_id, known)]
    return IS_CURRENT, *named, *of_task(tenant, where, titled_by_reading), in_time(where)


def _first(tenant: str, where: TaskFilter) -> Subquery:
    """Select by task when the first of such runs comes that the filter may show, and the rank of their states.

    A current run that needs its user comes first, in a list that shows it.
    """
    needs_its_user = and_(_NEEDS_ITS_USER, is_in_states(where)) if where.states else _NEEDS_ITS_USER
    at, rank = SIDE_RUN.c.listed_at, case(*((SIDE_RUN.c.state == state, n) for n, state in enumerate(_RANKED)))
    return (
        select(SIDE_RUN.c.task_id, func.min(at, type_=at.type).label("listed_at"), func.min(rank).label("rank"))
        .join_from(SIDE_RUN, runs, runs.c.task_id == SIDE_RUN.c.task_id)
        .join(tasks, tasks.c.id == runs.c.task_id)
        .where(*is_side_run_of(tenant), _COMES_FIRST, not_(needs_its_user), *_of_side_run(where))
        .group_by(SIDE_RUN.c.task_id)
        .subquery("first")
    )


def is_side_run_of(tenant: str) -> Sequence[Condition]:
    """Limit SIDE_RUN to open runs next to current ones, in a form where only their own index can lead a plan."""
    return _IS_SIDE_RUN, text_search.unindexed(SIDE_RUN.c.tenant) == tenant


def _of_side_run(where: TaskFilter) -> Sequence[Condition]:
    states = [SIDE_RUN.c.state.in_(where.states)] if where.states else []
    after = [where.after <= SIDE_RUN.c.listed_at] if where.after else []
    before = [where.before > SIDE_RUN.c.listed_at] if where.before else []
    return *states, *after, *before
