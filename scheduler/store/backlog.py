"""The backlog of all tenants: what is ready and since when, and how many runs became ready and ended lately."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, cast

from duetime.scheduler.records import Throughput, Waiting
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.schema.damage import next_time
from duetime.scheduler.store.schema.rows import NOT_PAUSED
from duetime.scheduler.store.schema.tables import events, runs, tasks
from duetime.scheduler.store.statements.ready_runs import ACTIVE
from duetime.scheduler.task import State, Tier
from sqlalchemy import Connection, Select, and_, case, func, select

THROUGHPUT_WINDOW = timedelta(minutes=5)
MAX_EVENTS_COUNTED = 10_000
"""Events that a look at the throughput reads at most: where there are more, its window is shorter."""

_LEFT = (State.READY, State.RUNNING, State.RETRYING, State.SUSPENDED)


class Backlog:
    """Reads the backlog. The cost of `waiting` grows with the ready runs, that of `throughput` does not."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def waiting(self, now: datetime) -> dict[Tier, Waiting]:
        """Return the ready runs of each tier that has any; those of paused tasks do not wait."""
        return self._database.read(lambda connection: _waiting(connection, now))

    def throughput(self, now: datetime) -> Throughput:
        """Count the runs that became ready, and those that left for good, in the last minutes."""
        return self._database.read(lambda connection: _throughput(connection, now))


def _waiting(connection: Connection, now: datetime) -> dict[Tier, Waiting]:
    """`first_ready_at` is kept over retries, whose own time is in `listed_at`: a later one counts."""
    again = and_(runs.c.listed_at > runs.c.first_ready_at, runs.c.listed_at <= now)
    since = case((again, runs.c.listed_at), else_=runs.c.first_ready_at)
    statement = (
        select(tasks.c.priority, func.count(), func.min(since, type_=runs.c.listed_at.type))
        .select_from(runs.join(tasks, tasks.c.id == runs.c.task_id))
        .where(ACTIVE, runs.c.state == State.READY, NOT_PAUSED)
        .group_by(tasks.c.priority)
    )
    return {tier: Waiting(count, oldest) for tier, count, oldest in unreadable.rows(connection, statement)}


def _throughput(connection: Connection, now: datetime) -> Throughput:
    newest = select(events.c.at, events.c.from_state, events.c.to_state).order_by(events.c.id.desc())
    late = newest.limit(MAX_EVENTS_COUNTED).subquery()
    became = and_(late.c.to_state == State.READY, late.c.from_state == State.SCHEDULED)
    ended = and_(late.c.to_state.in_(TERMINAL), late.c.from_state.in_(_LEFT))
    first = func.min(late.c.at, type_=events.c.at.type)
    start = now - THROUGHPUT_WINDOW
    counts = select(
        func.count(),
        first,
        func.count(case((and_(became, late.c.at >= start), 1))),
        func.count(case((and_(ended, late.c.at >= start), 1))),
    )
    [(counted, earliest, in_, out)], _ = unreadable.every(connection, cast("Select[Any]", counts))
    oldest = next_time(earliest) or start
    window = now - max(oldest, start) if counted == MAX_EVENTS_COUNTED else THROUGHPUT_WINDOW
    return Throughput(window, in_, out)
