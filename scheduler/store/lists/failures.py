"""Lists tasks whose latest run that ended has failed or expired, newest first: also those that are scheduled again.

An index holds the last failure of each such task (`runs.last_failure`), so the cost does not grow with the history.
The mark may be left where a later run was cancelled while it waited, so each one is compared with the latest run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from duetime.scheduler.rules.states import FAILURES, only_failures
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.damage import DamagedValue
from duetime.scheduler.store.schema.rows import IS_CURRENT, RUN_FIELDS, TASK_FIELDS
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.schema.values import FIRST_INSTANT, LAST_INSTANT, from_microseconds, to_microseconds
from duetime.scheduler.store.sql.cursors import Position
from duetime.scheduler.store.sql.task_filter import conditions, in_time, of_task
from duetime.scheduler.store.statements import read
from duetime.scheduler.store.text_index import text_search
from duetime.scheduler.store.text_index.text_search import Condition, Matches, titled_by_reading
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskFilter, TaskRecord
from sqlalchemy import Connection, Select, and_, case, func, literal, literal_column, or_, select, tuple_

_failed = runs.alias("failed")
_KEY = (_failed.c.listed_at, _failed.c.task_id)
_MARKED: Condition = literal_column("failed.last_failure")  # literal, as in its index; else SQLite does not use it
_CURRENT_RAN = and_(
    runs.c.ended_at.is_not(None),
    runs.c.state != State.SKIPPED,
    or_(runs.c.state != State.CANCELLED, runs.c.started_at.is_not(None)),
)
_LATER_GENERATION = and_(tasks.c.repeat.is_(None), runs.c.number > 1)
_LATEST = case(
    (_CURRENT_RAN, runs.c.id),
    (_LATER_GENERATION, read.LATEST_OF_STEP.scalar_subquery()),
    else_=read.LATEST_ENDED.scalar_subquery(),
)
_FAILED = _failed.join(tasks, tasks.c.id == _failed.c.task_id).join(
    runs, and_(runs.c.task_id == _failed.c.task_id, IS_CURRENT)
)
_LISTED: Select[Any] = select(*TASK_FIELDS, *RUN_FIELDS, _failed.c.listed_at.label("failed_at")).select_from(_FAILED)


def page(
    connection: Connection,
    tenant: str,
    where: TaskFilter,
    matches: Matches | None,
    *,
    limit: int,
    behind: Position,
) -> tuple[list[TaskRecord], Position | None]:
    """Return at most `limit` tasks behind a position ([] is the start), and the last one's position if more follow.

    `matches` are of the filter's words.
    """
    statement = _LISTED.where(*_of_failures(connection, tenant, where, matches))
    if behind:
        at, task_id = behind
        last = (from_microseconds(int(at)), str(task_id))
        statement = statement.where(tuple_(*_KEY) < tuple_(*last, types=[column.type for column in _KEY]))
    statement = _newest_first(statement).limit(limit + 1)
    rows, damaged = unreadable.every(connection, statement)
    found = read.records_of(connection, rows[:limit], damaged)
    return found, [_position(rows[limit - 1].failed_at), found[-1].task.id] if len(rows) > limit else None


def _position(failed_at: datetime | DamagedValue) -> int:
    if isinstance(failed_at, DamagedValue):
        return to_microseconds(FIRST_INSTANT if failed_at.stored.startswith("-") else LAST_INSTANT)
    return to_microseconds(failed_at)


def _newest_first(statement: Select[Any]) -> Select[Any]:
    return statement.order_by(*(column.desc() for column in _KEY))


def up_to(tenant: str, state: State, most: int, *others: Condition) -> Select[str, int]:
    """Return a statement that counts up to `most` tasks whose latest ended run is in this state."""
    found = select(_failed.c.id).select_from(_FAILED).where(*_last(tenant, (state,)), *others)
    newest = _newest_first(found).limit(most).subquery()  # the order makes SQLite choose their own index
    return select(literal(state.value), func.count()).select_from(newest)


def counted(
    connection: Connection, tenant: str, where: TaskFilter, matches: Matches | None, most: int
) -> dict[State, int]:
    """Count up to `most` failures by state: those of a filter for failures, or among the tasks of any other filter."""
    states = FAILURES.intersection(where.states) if where.states else FAILURES
    if not states:
        return {}
    others = _among(connection, tenant, where, matches)
    found = {state: connection.execute(up_to(tenant, state, most, *others)).one()[1] for state in sorted(states)}
    return {state: count for state, count in found.items() if count}


def of_states(tenant: str, where: TaskFilter, state: State, most: int) -> Select[str, int]:
    """Return `up_to` for a filter that has only states."""
    return up_to(tenant, state, most, *([] if only_failures(where.states) else conditions(tenant, where)))


def _last(tenant: str, states: Iterable[State]) -> Sequence[Condition]:
    return _failed.c.tenant == tenant, _MARKED, _failed.c.state.in_(states), _failed.c.id == _LATEST


def _of_failures(
    connection: Connection, tenant: str, where: TaskFilter, matches: Matches | None
) -> Sequence[Condition]:
    return *_last(tenant, where.states), *_among(connection, tenant, where, matches)


def _among(connection: Connection, tenant: str, where: TaskFilter, matches: Matches | None) -> Sequence[Condition]:
    """Return the other conditions of a filter; in one for failures, its bounds are of when the failed run was due."""
    known = matches.ids if matches and matches.complete else None
    named = [] if known is None else [text_search.among(connection, _failed.c.task_id, known)]
    if not only_failures(where.states):
        bounded = [in_time(where)] if where.after or where.before else []
        return *named, *conditions(tenant, where, titled_by_reading), *bounded
    after = [where.after <= _failed.c.scheduled_for] if where.after else []
    before = [where.before > _failed.c.scheduled_for] if where.before else []
    return *named, *of_task(tenant, where, titled_by_reading), *after, *before
