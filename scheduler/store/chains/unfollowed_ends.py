"""Ends that were not followed up: by older code, a cut or a repair by hand, or since there were too many at once."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.rows import IS_CURRENT
from duetime.scheduler.store.schema.tables.chains import dependencies
from duetime.scheduler.store.schema.tables.signals import signal_waits
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.store.statements import dependants
from duetime.scheduler.store.statements.approvals import questions
from duetime.scheduler.store.statements.ready_runs import IS_ACTIVE
from duetime.scheduler.store.statements.signals.wait_room import OPEN_WAIT
from duetime.scheduler.store.statements.waiters import OPEN_DEPENDENCY
from duetime.scheduler.task import State
from sqlalchemy import Connection, bindparam, select

_UNFOLLOWED = (
    select(dependencies.c.upstream_id, runs.c.state)
    .outerjoin_from(dependencies, runs, (runs.c.task_id == dependencies.c.upstream_id) & IS_CURRENT)
    .where(OPEN_DEPENDENCY, runs.c.ended_at.is_not(None) | runs.c.id.is_(None))
    .distinct()
    .limit(bindparam("most"))
)
_AWAITED = (
    select(signal_waits.c.task_id)
    .where(signal_waits.c.waiter_id.in_([runs.c.task_id, runs.c.id]), OPEN_WAIT)
    .correlate(runs)
    .exists()
)
_FREE_ALREADY = (
    select(runs.c.task_id)
    .where(IS_ACTIVE, runs.c.state == State.WAITING, IS_CURRENT)
    .where(~select(dependencies.c.task_id).where(dependencies.c.task_id == runs.c.task_id, OPEN_DEPENDENCY).exists())
    .where(~questions.HAS_OPEN_APPROVAL)
    .where(~_AWAITED)
    .limit(bindparam("most"))
)


def ended(connection: Connection, limit: int, only: Collection[str] | None = None) -> dict[str, State]:
    """Return the ends of at most `limit` tasks for which others still wait; a deleted task counts as cancelled."""
    wanted = unreadable.without(connection, _UNFOLLOWED, dependencies.c.upstream_id, only)
    found = connection.execute(wanted, {"most": limit}).all()
    return {row.upstream_id: row.state or State.CANCELLED for row in found}


def follow(connection: Connection, only: Collection[str], limit: int, now: datetime) -> int:
    """Follow up the ends of those of the tasks that have ended; return their number."""
    found = ended(connection, limit, only)
    dependants.follow(connection, found, now)
    return len(found)


def free(connection: Connection, limit: int, only: Collection[str] | None = None) -> list[str]:
    """Return at most `limit` waiting tasks that have nothing left to wait for."""
    wanted = unreadable.without(connection, _FREE_ALREADY, runs.c.task_id, only)
    return list(connection.execute(wanted, {"most": limit}).scalars())


def let_go(connection: Connection, only: Collection[str], limit: int, now: datetime) -> int:
    """Free or end those of the tasks that have nothing left to wait for; return their number."""
    found = free(connection, limit, only)
    dependants.follow(connection, dependants.settle_waiting(connection, found, now), now)
    return len(found)
