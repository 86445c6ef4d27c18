"""Lists tasks: open ones by due time, then ended ones, newest first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

from duetime.scheduler.rules.states import FAILURES, OPEN, TERMINAL, only_failures
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.lists import extra_runs, failures
from duetime.scheduler.store.schema.damage import DamagedValue
from duetime.scheduler.store.schema.rows import IS_CURRENT
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.store.schema.values import FIRST_INSTANT, LAST_INSTANT, from_microseconds, to_microseconds
from duetime.scheduler.store.sql.cursors import Position
from duetime.scheduler.store.sql.task_filter import (
    ASKING_RUN,
    ENDED_SECTION,
    OPEN_SECTION,
    PER_SECTION,
    SECTION_STATES,
    among,
    asked_too,
    conditions,
    in_time,
    meets,
    of_task,
    parts_of,
    states_within,
)
from duetime.scheduler.store.statements import read
from duetime.scheduler.store.statements.ready_runs import ATTEMPTS_OF_RUNS, IS_RUNNING, RUNS_OF_TASKS
from duetime.scheduler.store.text_index import text_search
from duetime.scheduler.store.text_index.text_search import Condition, Matches, titled_by_reading
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskFilter, TaskRecord
from sqlalchemy import Connection, Row, Select, and_, func, literal, select, true, tuple_, union_all

Found = Sequence[Row[Any]]

_MAX_ROWS = 2**31 - 1
MAX_ROWS_READ_SOON = 25_000
"""Rows of a section that are read in its order for common words, before anything else is tried."""

_KEY = (runs.c.listed_at, runs.c.task_id)
_HERE = tuple_(*_KEY)
_LISTED = read.TASK_AND_RUN.add_columns(runs.c.listed_at)


class Counts(NamedTuple):
    """Number of tasks by state; for the states in `at_least` there may be more."""

    by_state: dict[State, int]
    at_least: frozenset[State]


@dataclass(frozen=True, slots=True)
class ListReader:
    """Reads one list; `matches` are of the words in its filter."""

    connection: Connection
    tenant: str
    where: TaskFilter
    matches: Matches | None
    apart: Sequence[Condition] = ()
    """Conditions on the current run besides those of the filter."""
    damaged: list[bool] = field(default_factory=list)
    """Whether some of the rows are damaged, once they were read."""

    def rows(self, section: str, behind: Position, limit: int) -> Found:
        found: list[Row[Any]] = []
        for of_tenant, part in parts_of(self.tenant, self.where, section):
            within = (IS_CURRENT, PER_SECTION[section], *part, *self.apart)
            found.extend(self._part(section, of_tenant, within, behind, limit - len(found)))
            if len(found) == limit:
                break
        return found

    def _part(
        self, section: str, of_tenant: Condition, within: Sequence[Condition], behind: Position, limit: int
    ) -> Found:
        if self.matches and self.matches.complete:
            only = (*among(self.connection, self.tenant, self.where, self.matches.ids), *within)
            return self._read(in_order(_LISTED.where(*only), section, behind).limit(limit))
        of_part = (of_tenant, *within)
        found = self._soon(section, of_part, behind, limit) if self.matches else None
        if found is not None:
            return found
        statement = _LISTED.where(*of_part, *conditions(self.tenant, self.where))
        return self._read(in_order(statement, section, behind).limit(limit))

    def _soon(self, section: str, of_part: Sequence[Condition], behind: Position, limit: int) -> Found | None:
        """Look for common words among the next rows, in the order of the list, which a planner may not choose.

        Returns None when there may be more of them further on. A planner expects few of them, and so to read on to
        the last row. The processes that it would start for that take longer than the page.
        """
        dialect_of(self.connection).read_alone(self.connection)
        every = in_order(select(runs.c.listed_at, runs.c.task_id).where(*of_part), section, behind)
        last = next(iter(unreadable.rows(self.connection, every.limit(1).offset(MAX_ROWS_READ_SOON))), None)
        statement = _LISTED.where(*of_part, *conditions(self.tenant, self.where, titled_by_reading))
        if last is not None:
            statement = statement.where(_at(*last) >= _HERE if section == OPEN_SECTION else _at(*last) <= _HERE)
        found = self._read(in_order(statement, section, behind).limit(limit))
        return found if last is None or len(found) == limit else None

    def shown_by_extra_runs(self, behind: Position, limit: int) -> Found:
        """Return open tasks that are listed by a run next to their current one."""
        statement, key = extra_runs.shown(self.connection, self.tenant, self.where, self.matches)
        return self._read(in_order(statement, OPEN_SECTION, behind, key).limit(limit))

    def _read(self, statement: Select[Any]) -> Found:
        found, damaged = unreadable.every(self.connection, statement)
        self.damaged[:] = [damaged or any(self.damaged)]
        return found


def matching(connection: Connection, tenant: str, where: TaskFilter) -> Matches | None:
    """Return the first tasks with the filter's words, if it has any."""
    return text_search.matching_tasks(connection, tenant, where.query) if where.query else None


def start(where: TaskFilter) -> Position:
    """Return the position before the first task of a list: before its open ones, or before its ended ones."""
    return [OPEN_SECTION if meets(where, OPEN) else ENDED_SECTION]


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
    if only_failures(where.states):
        return failures.page(connection, tenant, where, matches, limit=limit, behind=behind)
    section, *behind = behind or start(where)
    reader = ListReader(connection, tenant, where, matches)
    rows: list[Row[Any]] = []
    if section == OPEN_SECTION:
        rows.extend(_open_rows(reader, behind, limit + 1))
        behind = []
    if len(rows) <= limit and meets(where, TERMINAL):
        rows.extend(reader.rows(ENDED_SECTION, behind, limit + 1 - len(rows)))
    found = read.records_of(connection, rows[:limit], any(reader.damaged))
    return found, _position(rows[limit - 1], found[-1]) if len(rows) > limit else None


def _open_rows(reader: ListReader, behind: Position, limit: int) -> Found:
    if not extra_runs.any_of(reader.connection, reader.tenant, reader.where):
        return reader.rows(OPEN_SECTION, behind, limit)
    others = replace(reader, apart=(extra_runs.not_shown(reader.tenant, reader.where),))
    found = *others.rows(OPEN_SECTION, behind, limit), *reader.shown_by_extra_runs(behind, limit)
    return sorted(found, key=lambda row: (_microseconds(row.listed_at), row[0]))[:limit]  # a row begins with its task


def _position(row: Row[Any], record: TaskRecord) -> Position:
    section, at = ENDED_SECTION if record.run.ended_at else OPEN_SECTION, _microseconds(row.listed_at)
    is_last = isinstance(row.listed_at, DamagedValue) and at == to_microseconds(LAST_INSTANT)
    return [ENDED_SECTION] if is_last and section == OPEN_SECTION else [section, at, record.task.id]


def _microseconds(at: datetime | DamagedValue) -> int:
    """Return a row's place: what is no instant is before all others where it is negative, else after them."""
    if isinstance(at, DamagedValue):
        at = FIRST_INSTANT if at.stored.startswith("-") else LAST_INSTANT
    return to_microseconds(at)


def in_order(statement: Select[Any], section: str, behind: Position, key: extra_runs.ListKey = _KEY) -> Select[Any]:
    """Sort a section of a list, from behind a position."""
    if behind:
        last, here = _at(from_microseconds(int(behind[0])), str(behind[1])), tuple_(*key)
        statement = statement.where(last < here if section == OPEN_SECTION else last > here)
    return statement.order_by(*(column.asc() if section == OPEN_SECTION else column.desc() for column in key))


def _at(listed_at: datetime, task_id: str) -> Any:
    return tuple_(listed_at, task_id, types=[column.type for column in _KEY])


def counts(connection: Connection, tenant: str, where: TaskFilter) -> dict[State, int]:
    """Return the number of tasks of the filter by state like `counts_up_to`, but all of them."""
    failed = failures.counted(connection, tenant, where, None, _MAX_ROWS)
    if only_failures(where.states):
        return failed
    statement = select(runs.c.state, func.count()).where(runs.c.tenant == tenant, runs.c.current == true())
    if of_task(tenant, where):
        statement = statement.select_from(RUNS_OF_TASKS)
    statement = statement.where(in_time(where), *conditions(tenant, where)).group_by(runs.c.state)
    found = Counter({State(state): count for state, count in unreadable.rows(connection, statement)})
    return _without_failures(found + extra_runs.counted(connection, tenant, where, None, _MAX_ROWS)) | failed


def _without_failures(found: Mapping[State, int]) -> dict[State, int]:
    return {state: count for state, count in found.items() if state not in FAILURES}


def counts_up_to(connection: Connection, tenant: str, where: TaskFilter, matches: Matches | None, most: int) -> Counts:
    """Count up to `most` tasks of each state; with other filters, up to `most` open and `most` ended ones.

    Of common words in titles, only the first matches are counted. Failures are those of `failures`: tasks whose latest
    run failed, also where they are scheduled again and counted as that too. In a filter of states, a task that only a
    run next to its current one brings in counts as that.
    """
    found = _counted_up_to(connection, tenant, where, matches, most)
    extra = extra_runs.counted(connection, tenant, where, matches, most)
    together = {state: min(found.by_state.get(state, 0) + count, most) for state, count in extra.items()}
    more = {state for state, count in together.items() if count == most}
    return Counts(found.by_state | together, found.at_least | more)


def _counted_up_to(
    connection: Connection, tenant: str, where: TaskFilter, matches: Matches | None, most: int
) -> Counts:
    """Count tasks by the state of their current run, and failures."""
    if where == TaskFilter(states=where.states):
        states = states_within(where) or tuple(State)
        rows = connection.execute(union_all(*(_up_to(tenant, where, state, most) for state in states))).all()
        found = {State(state): count for state, count in rows if count}
        return Counts(found, frozenset(state for state, count in found.items() if count == most))
    failed = failures.counted(connection, tenant, where, matches, most)
    more = frozenset(state for state, count in failed.items() if count == most)
    if only_failures(where.states):
        return Counts(failed, more)
    by_state, at_least = _of_current_runs(connection, tenant, where, matches, most)
    return Counts(_without_failures(by_state) | failed, (at_least - FAILURES) | more)


def _of_current_runs(
    connection: Connection, tenant: str, where: TaskFilter, matches: Matches | None, most: int
) -> Counts:
    if matches and matches.complete:
        return _counted_among(connection, tenant, where, matches, most)
    if matches and where == TaskFilter(query=where.query):
        first = _counted_first(connection, tenant, matches.ids, most)
        if first.total() == most:
            return Counts(dict(first), frozenset(first))
    counted: dict[State, int] = {}
    at_least: set[State] = set()
    for section in (name for name, states in SECTION_STATES.items() if meets(where, states)):
        these: Counter[State] = Counter()
        for of_tenant, part in parts_of(tenant, where, section):
            within = (of_tenant, PER_SECTION[section], *part)
            these += _counted(connection, tenant, where, within, most - these.total())
        counted |= these
        if these.total() == most:
            at_least |= these.keys()
    return Counts(counted, frozenset(at_least))


def _counted_among(connection: Connection, tenant: str, where: TaskFilter, matches: Matches, most: int) -> Counts:
    """Count the matches that the index gave; where it has more of them, there may be more of each state."""
    statement = select(runs.c.state, func.count()).select_from(RUNS_OF_TASKS).group_by(runs.c.state)
    statement = statement.where(*among(connection, tenant, where, matches.ids), in_time(where))
    found = {State(state): count for state, count in unreadable.rows(connection, statement)}
    more = frozenset(state for state, count in found.items() if count >= most or not matches.complete)
    return Counts({state: min(count, most) for state, count in found.items()}, more)


def _counted_first(connection: Connection, tenant: str, ids: Sequence[str], most: int) -> Counter[State]:
    """Count up to `most` tasks of a tenant among these: the index has words of all tenants."""
    mine = text_search.among(connection, runs.c.task_id, ids), text_search.unindexed(runs.c.tenant) == tenant
    first = select(runs.c.state).where(IS_CURRENT, *mine).limit(most).subquery()
    rows = unreadable.rows(connection, select(first.c.state, func.count()).group_by(first.c.state))
    return Counter({State(state): count for state, count in rows})


def _up_to(tenant: str, where: TaskFilter, state: State, most: int) -> Select[str, int]:
    if state in FAILURES:
        return failures.of_states(tenant, where, state, most)
    if state is State.RUNNING:  # few, and in one phase with all that are ready
        of_tenant = and_(runs.c.tenant == tenant, runs.c.current == true()).is_(true())  # by no index of these
        found = select(runs.c.id).select_from(ATTEMPTS_OF_RUNS).where(IS_RUNNING, of_tenant)
    else:
        of_state = (runs.c.tenant == tenant, runs.c.current == true(), runs.c.phase == state, runs.c.state == state)
        found = select(runs.c.id).where(*of_state)
    if state is State.SUSPENDED and asked_too(where):
        found = found.where(ASKING_RUN)
    return select(literal(state.value), func.count()).select_from(found.limit(most).subquery())


def _counted(
    connection: Connection, tenant: str, where: TaskFilter, part: Sequence[Condition], most: int
) -> Counter[State]:
    found = select(runs.c.state).select_from(RUNS_OF_TASKS).where(IS_CURRENT, *part)
    first = found.where(*conditions(tenant, where)).limit(most).subquery()
    rows = unreadable.rows(connection, select(first.c.state, func.count()).group_by(first.c.state))
    return Counter({State(state): count for state, count in rows})
