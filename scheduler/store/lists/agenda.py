"""A time window in the future: the open tasks that are due in it, and recurring ones that will be due again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from duetime.scheduler.chain.chain import Chain
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.lists.extra_runs import SIDE_RUN, is_side_run_of
from duetime.scheduler.store.lists.task_list import ListReader, in_order, start
from duetime.scheduler.store.schema.damage import DamagedValue
from duetime.scheduler.store.schema.rows import IS_CURRENT, columns_of, listed_at
from duetime.scheduler.store.schema.tables.chains import chain_steps, chains, dependencies
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.schema.values import from_microseconds, to_microseconds
from duetime.scheduler.store.sql.cursors import Position
from duetime.scheduler.store.sql.task_filter import (
    ENDED_SECTION,
    HELD_TASKS,
    IS_HELD_BY_PAUSE,
    OPEN_SECTION,
    PER_SECTION,
    STARTS_AT,
    conditions,
    of_task,
)
from duetime.scheduler.store.statements import read
from duetime.scheduler.store.text_index.text_search import Condition, Matches, titled_by_reading
from duetime.scheduler.task import Run, State, Task
from duetime.scheduler.views import TaskFilter, TaskRecord
from sqlalchemy import Connection, Select, and_, exists, false, not_, or_, select, true, tuple_

MAX_OPEN_RUNS_SEARCHED = 5_000
"""Open runs, the earliest first, among which recurring tasks are searched."""

MAX_RECURRING_TASKS = 200
"""Recurring tasks whose later occurrences are listed."""

ListPlace = tuple[datetime, str]
"""A place in the order of a list: a time, and the id of a task."""


class AgendaSeries(NamedTuple):
    """A recurring task, or a first step of a chain that recurs: with its rule, and the run before the next ones."""

    record: TaskRecord
    ruled: Task
    run: Run


class Agenda(NamedTuple):
    """The open tasks behind a place, each with its time in the list; and recurring ones, not `complete` if cut.

    Tasks that a pause holds until a time are `held` instead. A task may be among the recurring ones because of a run
    next to its current one alone.
    """

    rows: Sequence[tuple[datetime, TaskRecord]]
    behind: ListPlace | None
    held: Sequence[TaskRecord]
    recurring: Sequence[AgendaSeries]
    complete: bool


_CHAIN = columns_of(Chain, chains)
_ABOVE = chain_steps.alias("above")
_BEHIND_OTHERS = (
    exists()
    .where(dependencies.c.task_id == chain_steps.c.task_id, _ABOVE.c.task_id == dependencies.c.upstream_id)
    .where(_ABOVE.c.chain_id == chain_steps.c.chain_id)
    .correlate(chain_steps)
)
"""Steps that come after others of their chain."""

_GOES_ON = or_(runs.c.cancel_requested == false(), runs.c.overtaken_at.is_not(None))
"""Runs whose series continues: one that gives way to the next is asked to stop as well."""

_stopped, _stopped_step = runs.alias("stopped"), chain_steps.alias("stopped_step")
_ENDS = (
    select(_stopped_step.c.chain_id)
    .join_from(_stopped_step, _stopped, _stopped.c.task_id == _stopped_step.c.task_id)
    .where(_stopped_step.c.chain_id == chains.c.id, _stopped.c.current == true())
    .where(_stopped.c.state == State.CANCELLED, _stopped.c.overtaken_at.is_(None))
    .correlate(chains)
    .exists()
)
"""Chains of which a step was cancelled: no generation follows, unless it only gave way to the next one."""


def agenda(
    connection: Connection, tenant: str, where: TaskFilter, matches: Matches | None, *, limit: int, behind: Position
) -> Agenda | None:
    """Return the next `limit` open tasks of a window and its recurring ones; None behind the open tasks."""
    section, *behind = behind or start(where)
    if section != OPEN_SECTION:
        return None
    reader = ListReader(connection, tenant, where, matches, apart=(not_(IS_HELD_BY_PAUSE),))
    rows = reader.rows(OPEN_SECTION, behind, limit)
    records = read.records_of(connection, rows, any(reader.damaged))
    place = (from_microseconds(int(behind[0])), str(behind[1])) if behind else None
    once = _held_once(connection, tenant, where, place, limit)
    held, all_held = _first(connection, _held(tenant, where, tasks.c.repeat.is_not(None)))
    steps, all_steps = _first_steps(connection, tenant, where)
    found, complete = _recurring(connection, tenant, where)
    others, all_others = _with_side_runs(connection, tenant, where)
    series = {each.task.id: AgendaSeries(each, replace(each.task, repeat=None), each.run) for each in others}
    series |= {each.task.id: AgendaSeries(each, each.task, each.run) for each in (*held, *found)}
    return Agenda(
        [(_place(row.listed_at, record), record) for row, record in zip(rows, records, strict=True)],
        place,
        [*once, *held],
        list((series | {each.record.task.id: each for each in steps}).values()),
        complete and all_steps and all_held and all_others,
    )


def _held(tenant: str, where: TaskFilter, kind: Condition) -> Select[Any]:
    """Select the tasks of a kind that a pause holds until a time before the end of the window."""
    return (
        read.TASK_AND_RUN.where(tasks.c.tenant == tenant, tasks.c.paused_until < where.before, kind)
        .where(IS_CURRENT, PER_SECTION[OPEN_SECTION], IS_HELD_BY_PAUSE, *conditions(tenant, where, titled_by_reading))
        .order_by(tasks.c.paused_until, tasks.c.id)
    )


def _held_once(
    connection: Connection, tenant: str, where: TaskFilter, behind: ListPlace | None, limit: int
) -> Sequence[TaskRecord]:
    """Return the next `limit` tasks behind a place that a pause holds until a time and that do not recur."""
    place = (STARTS_AT, tasks.c.id)
    window = [where.after <= STARTS_AT] if where.after else []
    window += [tuple_(*behind, types=[each.type for each in place]) < tuple_(*place)] if behind else []
    statement = _held(tenant, where, tasks.c.repeat.is_(None)).where(where.before > STARTS_AT, *window)
    rows, damaged = unreadable.every(connection, statement.order_by(None).order_by(*place).limit(limit))
    return read.records_of(connection, rows, damaged)


def _with_side_runs(connection: Connection, tenant: str, where: TaskFilter) -> tuple[Sequence[TaskRecord], bool]:
    """Return the tasks of which a run next to the current one comes before the end of the window."""
    due = select(SIDE_RUN.c.task_id).where(*is_side_run_of(tenant), SIDE_RUN.c.listed_at < where.before)
    statement = (
        read.TASK_AND_RUN.where(IS_CURRENT, runs.c.task_id.in_(due))
        .where(or_(tasks.c.paused == false(), tasks.c.paused_until < where.before))
        .where(*of_task(tenant, where, titled_by_reading))
        .order_by(runs.c.task_id)
    )
    return _first(connection, statement)


def _first(connection: Connection, statement: Select[Any]) -> tuple[Sequence[TaskRecord], bool]:
    """Return the first tasks that a statement finds, and whether these are all."""
    rows, damaged = unreadable.every(connection, statement.limit(MAX_RECURRING_TASKS + 1))
    found = read.records_of(connection, rows[:MAX_RECURRING_TASKS], damaged)
    return found, len(rows) <= MAX_RECURRING_TASKS


def _place(at: datetime | DamagedValue, record: TaskRecord) -> datetime:
    return listed_at(record.run) if isinstance(at, DamagedValue) else at


def position_behind(place: ListPlace | None) -> Position:
    """Return the position behind a place among the open tasks; behind all of them for None."""
    return [OPEN_SECTION, to_microseconds(place[0]), place[1]] if place else [ENDED_SECTION]


def _recurring(connection: Connection, tenant: str, where: TaskFilter) -> tuple[Sequence[TaskRecord], bool]:
    due = (runs.c.tenant == tenant, IS_CURRENT, PER_SECTION[OPEN_SECTION], runs.c.listed_at < where.before)
    earliest = in_order(select(runs.c.id).where(*due), OPEN_SECTION, [])
    beyond = connection.execute(earliest.limit(1).offset(MAX_OPEN_RUNS_SEARCHED)).first()
    pause_ends = and_(runs.c.state == State.RUNNING, tasks.c.paused_until < where.before)
    statement = (
        read.TASK_AND_RUN.where(runs.c.id.in_(earliest.limit(MAX_OPEN_RUNS_SEARCHED)))
        .where(tasks.c.repeat.is_not(None), or_(tasks.c.paused == false(), pause_ends), _GOES_ON)
        .where(*of_task(tenant, where, titled_by_reading))
    )
    found, complete = _first(connection, in_order(statement, OPEN_SECTION, []))
    return found, complete and beyond is None


def _first_steps(connection: Connection, tenant: str, where: TaskFilter) -> tuple[Sequence[AgendaSeries], bool]:
    """Return the first steps of chains that recur and have an open step that is due before the end of the window."""
    goes_on = (
        select(chain_steps.c.chain_id)
        .join(runs, runs.c.task_id == chain_steps.c.task_id)
        .where(runs.c.tenant == tenant, IS_CURRENT, PER_SECTION[OPEN_SECTION], runs.c.listed_at < where.before)
        .where(_GOES_ON, or_(runs.c.paused == false(), runs.c.task_id.in_(HELD_TASKS)))
    )
    statement = (
        select(chain_steps.c.task_id, *_CHAIN)
        .join_from(chain_steps, chains, chains.c.id == chain_steps.c.chain_id)
        .join(tasks, tasks.c.id == chain_steps.c.task_id)
        .join(runs, (runs.c.task_id == tasks.c.id) & IS_CURRENT)
        .where(chains.c.tenant == tenant, chains.c.repeat.is_not(None), chains.c.id.in_(goes_on), ~_ENDS)
        .where(chain_steps.c.name.not_like("%/%"), ~_BEHIND_OTHERS)
        .where(or_(tasks.c.paused == false(), tasks.c.paused_until < where.before))
        .where(*of_task(tenant, where, titled_by_reading))
        .order_by(chains.c.id, chain_steps.c.place)
        .limit(MAX_RECURRING_TASKS + 1)
    )
    rows = unreadable.rows(connection, statement)
    found = read.records(connection, [task_id for task_id, *_ in rows[:MAX_RECURRING_TASKS]])
    chain_of = {task_id: Chain(*values) for task_id, *values in rows}
    return [_as_series(record, chain_of[task_id]) for task_id, record in found.items()], len(
        rows
    ) <= MAX_RECURRING_TASKS


def _as_series(record: TaskRecord, chain: Chain) -> AgendaSeries:
    ruled, run = chain.as_series(record.task)
    return AgendaSeries(record, ruled, replace(run, scheduled_for=max(run.scheduled_for, record.run.scheduled_for)))
