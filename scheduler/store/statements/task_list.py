"""Lists tasks: open ones by due time, then ended ones, newest first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from duetime.scheduler.rules.states import OPEN, TERMINAL
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.rows import CURRENT, folded, task_and_run, twin_hash
from duetime.scheduler.store.schema.tables import labels, runs, tasks
from duetime.scheduler.store.schema.values import from_microseconds, to_microseconds
from duetime.scheduler.store.sql import cursors
from duetime.scheduler.store.sql.positional import PositionalStatement
from duetime.scheduler.store.statements import read
from duetime.scheduler.task import Run, State, Task, TaskFilter, TaskRecord
from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    bindparam,
    case,
    func,
    literal,
    not_,
    or_,
    select,
    true,
    tuple_,
    union_all,
)
from sqlalchemy.dialects import sqlite

Condition = ColumnElement[bool]
Found = Sequence[Row[Any]]
Position = list[int | str]

_RUN_AND_TASK = runs.join(tasks, tasks.c.id == runs.c.task_id)
_OPEN, _ENDED = "open", "ended"
_PER_SECTION = {_OPEN: runs.c.ended_at.is_(None), _ENDED: runs.c.ended_at.is_not(None)}
_SECTIONS = {_OPEN: OPEN, _ENDED: TERMINAL}
_LISTED_ELSEWHERE = {
    _OPEN: (State.RETRYING, State.SUSPENDED),
    _ENDED: (State.CANCELLED, State.EXPIRED, State.SKIPPED),
}
DUE = case(
    (and_(runs.c.state == State.SCHEDULED, runs.c.wake_at > runs.c.scheduled_for), runs.c.wake_at),
    else_=runs.c.scheduled_for,
)
"""When a run is due, for the reader: where a snooze moved one that waits, else its own time."""

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
SIMILAR = (  # by its hash alone: whatever else stands at the same time costs nothing
    select(runs.c.task_id)
    .where(runs.c.twin_hash == bindparam("alike"), runs.c.scheduled_for == bindparam("at"))
    .where(CURRENT, _PER_SECTION[_OPEN], runs.c.listed_at == bindparam("at"), _SAME_TASK.scalar_subquery())
    .limit(1)
)
_SIMILAR_ON_SQLITE = PositionalStatement.of(SIMILAR, sqlite.dialect())
_LISTED = read.TASK_AND_RUN.add_columns(runs.c.listed_at)


class Counts(NamedTuple):
    """Number of tasks by state; for the states in `at_least` there may be more."""

    by_state: dict[State, int]
    at_least: frozenset[State]


@dataclass(frozen=True, slots=True)
class _List:
    """One tenant's list under one filter; a cursor belongs to one such list."""

    tenant: str
    where: TaskFilter

    def rows(self, connection: Connection, section: str, behind: Position, limit: int) -> Found:
        found: list[Row[Any]] = []
        for part in _parts(self.where, section):
            statement = _LISTED.where(runs.c.tenant == self.tenant, CURRENT, _PER_SECTION[section], *part)
            statement = statement.where(*_conditions(self.tenant, self.where))
            statement = _ordered(statement, section, behind).limit(limit - len(found))
            found.extend(unreadable.rows(connection, statement, {}, runs.c.id))
            if len(found) == limit:
                break
        return found

    def start(self, cursor: str | None) -> Position:
        if cursor:
            return cursors.read(cursor, of=self)
        return [_OPEN if _meets(self.where, OPEN) else _ENDED]

    def has_ended(self) -> bool:
        return _meets(self.where, TERMINAL)


def _meets(where: TaskFilter, states: frozenset[State]) -> bool:
    return not where.states or not states.isdisjoint(where.states)


def page(
    connection: Connection, tenant: str, where: TaskFilter, *, limit: int, cursor: str | None
) -> tuple[list[TaskRecord], str | None]:
    """Return at most `limit` tasks, and the cursor of the next page."""
    listed = _List(tenant, where)
    section, *behind = listed.start(cursor)
    rows: list[Row[Any]] = []
    if section == _OPEN:
        rows.extend(listed.rows(connection, _OPEN, behind, limit + 1))
        behind = []
    if len(rows) <= limit and listed.has_ended():
        rows.extend(listed.rows(connection, _ENDED, behind, limit + 1 - len(rows)))
    pairs = [task_and_run(row) for row in rows[:limit]]
    following = cursors.write(_position(rows[limit - 1], pairs[-1]), of=listed) if len(rows) > limit else None
    return read.with_past(connection, pairs), following


def _position(row: Row[Any], pair: tuple[Task, Run]) -> Position:
    task, run = pair
    return [_ENDED if run.ended_at else _OPEN, to_microseconds(row.listed_at), task.id]


def _ordered(statement: Select[Any], section: str, behind: Position) -> Select[Any]:
    key = (runs.c.listed_at, runs.c.task_id)
    if behind:
        last = (from_microseconds(int(behind[0])), behind[1])
        here, there = tuple_(*key), tuple_(*last, types=[column.type for column in key])
        statement = statement.where(here > there if section == _OPEN else here < there)
    return statement.order_by(*(column.asc() if section == _OPEN else column.desc() for column in key))


def _conditions(tenant: str, where: TaskFilter) -> list[Condition]:
    found: list[Condition] = list(_of_task(tenant, where))
    if where.states:
        found.append(runs.c.state.in_(where.states))
    return found


def _parts(where: TaskFilter, section: str) -> Sequence[Sequence[Condition]]:
    """Return the conditions on the due time, as parts of a section that follow each other in its order.

    The first part is a range of the section's index. The second holds what is listed outside of the bound but due
    within it: a run that waits for its next attempt, or one that ended before it was due. Few are in those states.
    """
    bound = where.before if section == _OPEN else where.after
    window = [where.after <= DUE] if where.after else []
    window += [where.before > DUE] if where.before else []
    if bound is None:
        return ([*window, runs.c.listed_at >= where.after] if where.after else window,)
    inside = runs.c.listed_at < bound if section == _OPEN else runs.c.listed_at >= bound
    outside = and_(not_(inside), runs.c.state.in_(_LISTED_ELSEWHERE[section]))
    return ([*window, inside], [*window, outside])


def _of_task(tenant: str, where: TaskFilter) -> list[Condition]:
    found: list[Condition] = []
    if where.action:
        found.append(tasks.c.action == where.action)
    if where.label:
        found.append(labelled(tenant, where.label))
    if where.query:
        found.append(tasks.c.title_folded.contains(folded(where.query), autoescape=True))
    return found


def labelled(tenant: str, label: str) -> Condition:
    named = select(labels.c.task_id).where(labels.c.tenant == tenant, labels.c.label == label)
    return tasks.c.id.in_(named)


def counts(connection: Connection, tenant: str, where: TaskFilter) -> dict[State, int]:
    """Return the number of tasks of the filter by state, without empty states."""
    statement = select(runs.c.state, func.count()).where(runs.c.tenant == tenant, runs.c.current == true())
    if _of_task(tenant, where):
        statement = statement.select_from(_RUN_AND_TASK)
    parts = [and_(_PER_SECTION[section], *part) for section in _SECTIONS for part in _parts(where, section)]
    statement = statement.where(or_(*parts), *_conditions(tenant, where)).group_by(runs.c.state)
    return {State(state): count for state, count in connection.execute(statement)}


def counts_up_to(connection: Connection, tenant: str, where: TaskFilter, most: int) -> Counts:
    """Count up to `most` tasks of each state; with other filters, up to `most` open and `most` ended ones."""
    if _is_only_of_states(where):
        states = where.states or tuple(State)
        rows = connection.execute(union_all(*(_up_to(tenant, state, most) for state in states))).all()
        found = {State(state): count for state, count in rows if count}
        return Counts(found, frozenset(state for state, count in found.items() if count == most))
    counted: dict[State, int] = {}
    at_least: set[State] = set()
    for section in (name for name, states in _SECTIONS.items() if _meets(where, states)):
        these: Counter[State] = Counter()
        for part in _parts(where, section):
            these += _counted(connection, tenant, where, (_PER_SECTION[section], *part), most - these.total())
        counted |= these
        if these.total() == most:
            at_least |= these.keys()
    return Counts(counted, frozenset(at_least))


def _is_only_of_states(where: TaskFilter) -> bool:
    return where == TaskFilter(states=where.states)


def _up_to(tenant: str, state: State, most: int) -> Select[str, int]:
    of_state = (runs.c.tenant == tenant, runs.c.current == true(), runs.c.state == state)
    return select(literal(state.value), func.count()).select_from(
        select(runs.c.id).where(*of_state).limit(most).subquery()
    )


def _counted(
    connection: Connection, tenant: str, where: TaskFilter, part: Sequence[Condition], most: int
) -> Counter[State]:
    found = select(runs.c.state).select_from(_RUN_AND_TASK).where(runs.c.tenant == tenant, CURRENT, *part)
    first = found.where(*_conditions(tenant, where)).limit(most).subquery()
    rows = connection.execute(select(first.c.state, func.count()).group_by(first.c.state))
    return Counter({State(state): count for state, count in rows})


def similar(connection: Connection, tenant: str, owner: str, title: str, scheduled_for: datetime) -> str | None:
    """Return the id of an open task with the same title, time and owner."""
    alike = twin_hash(tenant, owner, title)
    same = {"of": tenant, "by": owner, "named": folded(title), "alike": alike, "at": scheduled_for}
    return next((task_id for (task_id,) in _SIMILAR_ON_SQLITE.rows(connection, same)), None)
