"""The backlog of all tenants: what is ready and since when, and how many runs came and went lately."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, cast

from duetime.scheduler.history.work_report import Throughput, Waiting
from duetime.scheduler.rules.alerts.alert import RecentOutcomes
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.schema.damage import DamagedValue, next_time
from duetime.scheduler.store.schema.rows import IS_PAUSED, NOT_PAUSED
from duetime.scheduler.store.schema.tables.dead_letters import dead_letters
from duetime.scheduler.store.schema.tables.events import events
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.statements.ready_runs import IS_ACTIVE
from duetime.scheduler.task import State, Tier
from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    case,
    false,
    func,
    literal_column,
    not_,
    select,
    true,
    union,
)

THROUGHPUT_WINDOWS = (timedelta(minutes=1), timedelta(minutes=5), timedelta(minutes=15))
MAX_BACKLOG_EVENTS = 30_000
"""Events that a look at the throughput reads at most: where there are more, its windows are shorter."""

MAX_BACKLOG_RUNS = 10_000
"""Ready runs that a look reads at each end, those made first and those made last, and runs that are due."""

_JUDGED = (State.SUCCEEDED, State.FAILED, State.EXPIRED)
_OPEN: ColumnElement[bool] = literal_column("runs.ended_at IS NULL")
_LEFT = (State.READY, State.RUNNING, State.RETRYING, State.SUSPENDED)


class Backlog:
    """Reads the backlog; of a long one a bounded part."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def waiting(self, now: datetime) -> dict[Tier, Waiting]:
        """Return the runs of each tier that are ready, or due and not ready yet; those of paused tasks do not wait."""
        return self._database.look(lambda connection: _waiting(connection, now))

    def open_runs(self) -> dict[tuple[State, Tier], int]:
        """Count open runs by state and tier: `MAX_BACKLOG_RUNS` without a timer and as many with the next, at most.

        Runs of paused tasks are left out: see `paused_runs`.
        """
        return self._database.look(_open_runs)

    def paused_runs(self) -> dict[Tier, int]:
        """Count open runs of paused tasks by tier, `MAX_BACKLOG_RUNS` at most."""
        return self._database.look(_paused_runs)

    def recent_outcomes(self, now: datetime, window: timedelta) -> RecentOutcomes:
        """Count ends of runs and attempts since `now - window`; of the newest `MAX_BACKLOG_EVENTS` events at most."""
        return self._database.look(lambda connection: _recent_outcomes(connection, now - window))

    def throughput(self, now: datetime) -> tuple[Throughput, ...]:
        """Count what came and went in the last minutes, in windows of 1, 5 and 15 minutes.

        Where too much happened for a window, it is shorter, and the last one.
        """
        return self._database.look(lambda connection: _throughput(connection, now))


def _waiting(connection: Connection, now: datetime) -> dict[Tier, Waiting]:
    ready, due = (IS_ACTIVE, runs.c.state == State.READY), (runs.c.wake_at <= now, NOT_PAUSED)
    ids = union(_first(ready, runs.c.id), _first(ready, runs.c.id.desc()), _first(due, runs.c.wake_at)).subquery()
    statement = (
        select(tasks.c.priority, func.count(), func.min(_since(now), type_=runs.c.listed_at.type))
        .select_from(ids.join(runs, runs.c.id == ids.c.id).join(tasks, tasks.c.id == runs.c.task_id))
        .where(NOT_PAUSED, tasks.c.paused == false())
        .group_by(tasks.c.priority)
    )
    groups, _ = unreadable.every(connection, statement)
    found = [group for group in groups if isinstance(group[0], Tier)]
    at_least = sum(count for _, count, _ in found) >= MAX_BACKLOG_RUNS
    return {tier: Waiting(count, _known(oldest, now), at_least) for tier, count, oldest in found}


def _recent_outcomes(connection: Connection, since: datetime) -> RecentOutcomes:
    columns = events.c.at, events.c.from_state, events.c.to_state, events.c.run_id
    late = select(*columns).order_by(events.c.id.desc()).limit(MAX_BACKLOG_EVENTS).subquery()
    judged = and_(late.c.to_state.in_(_JUDGED), runs.c.deadline.is_not(None))
    met = and_(late.c.to_state == State.SUCCEEDED, runs.c.ended_at <= runs.c.deadline)
    kinds = (
        and_(late.c.to_state == State.RUNNING, late.c.from_state == State.READY),
        late.c.to_state == State.RETRYING,
        dead_letters.c.run_id.is_not(None),
        judged,
        and_(judged, not_(met)),
    )
    counts = [func.count(case((kind, 1))) for kind in kinds]
    source = late.outerjoin(runs, and_(runs.c.id == late.c.run_id, late.c.to_state.in_(_JUDGED))).outerjoin(
        dead_letters, and_(dead_letters.c.run_id == late.c.run_id, late.c.to_state == State.FAILED)
    )
    [found], _ = unreadable.every(
        connection, cast("Select[Any]", select(*counts).select_from(source).where(late.c.at >= since))
    )
    return RecentOutcomes(*found)


def _open_runs(connection: Connection) -> dict[tuple[State, Tier], int]:
    active, timed = (IS_ACTIVE,), (runs.c.wake_at.is_not(None), NOT_PAUSED)
    ids = union(_first(active, runs.c.id), _first(timed, runs.c.wake_at)).subquery()
    statement = (
        select(runs.c.state, tasks.c.priority, func.count())
        .select_from(ids.join(runs, runs.c.id == ids.c.id).join(tasks, tasks.c.id == runs.c.task_id))
        .where(NOT_PAUSED, tasks.c.paused == false())
        .group_by(runs.c.state, tasks.c.priority)
    )
    groups, _ = unreadable.every(connection, cast("Select[Any]", statement))
    found = [group for group in groups if isinstance(group[0], State) and isinstance(group[1], Tier)]
    return {(state, tier): count for state, tier, count in found}


def _paused_runs(connection: Connection) -> dict[Tier, int]:
    ids = _first((IS_PAUSED, _OPEN), runs.c.id).subquery()
    statement = (
        select(tasks.c.priority, func.count())
        .select_from(ids.join(runs, runs.c.id == ids.c.id).join(tasks, tasks.c.id == runs.c.task_id))
        .where(tasks.c.paused == true())  # a run that waits for its turn in a series is marked in the same way
        .group_by(tasks.c.priority)
    )
    groups, _ = unreadable.every(connection, cast("Select[Any]", statement))
    return {tier: count for tier, count in groups if isinstance(tier, Tier)}


def _known(oldest: datetime | DamagedValue, now: datetime) -> datetime:
    """Return since when a tier waits; as from now where the time of a damaged run hides that of all others."""
    return now if isinstance(oldest, DamagedValue) else oldest


def _first(conditions: Sequence[ColumnElement[bool]], order: ColumnElement[Any]) -> Select[Any]:
    first = select(runs.c.id).where(*conditions).order_by(order).limit(MAX_BACKLOG_RUNS).subquery()
    return select(first.c.id)


def _since(now: datetime) -> ColumnElement[Any]:
    """Return since when a run waits: `first_ready_at` is kept over retries, whose own time is in `listed_at`."""
    again = and_(runs.c.listed_at > runs.c.first_ready_at, runs.c.listed_at <= now)
    return case((runs.c.wake_at.is_not(None), runs.c.wake_at), (again, runs.c.listed_at), else_=runs.c.first_ready_at)


def _throughput(connection: Connection, now: datetime) -> tuple[Throughput, ...]:
    newest = select(events.c.at, events.c.from_state, events.c.to_state).order_by(events.c.id.desc())
    late = newest.limit(MAX_BACKLOG_EVENTS).subquery()
    moves = (
        and_(late.c.to_state == State.READY, late.c.from_state == State.SCHEDULED),
        and_(late.c.to_state == State.RUNNING, late.c.from_state == State.READY),
        and_(late.c.to_state.in_(TERMINAL), late.c.from_state.in_(_LEFT)),
    )
    counts = select(
        func.count(),
        func.min(late.c.at, type_=events.c.at.type),
        *(
            func.count(case((and_(move, late.c.at >= now - window), 1)))
            for window in THROUGHPUT_WINDOWS
            for move in moves
        ),
    )
    [(counted, earliest, *moved)], _ = unreadable.every(connection, cast("Select[Any]", counts))
    reach = now - (next_time(earliest) or now) if counted == MAX_BACKLOG_EVENTS else THROUGHPUT_WINDOWS[-1]
    found = []
    for number, window in enumerate(THROUGHPUT_WINDOWS):
        found.append(Throughput(max(min(window, reach), timedelta(0)), *moved[3 * number : 3 * number + 3]))
        if window > reach:
            break
    return tuple(found)
