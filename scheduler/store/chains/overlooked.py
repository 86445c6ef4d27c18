"""Ends that were not followed up: by older code, a cut or a repair by hand, or since there were too many at once."""

from __future__ import annotations

from datetime import datetime

from duetime.scheduler.store.schema.rows import IS_CURRENT
from duetime.scheduler.store.schema.tables.chains import dependencies
from duetime.scheduler.store.schema.tables.signals import signal_waits
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.store.statements import dependants
from duetime.scheduler.store.statements.approvals import questions
from duetime.scheduler.store.statements.ready_runs import IS_ACTIVE
from duetime.scheduler.store.statements.signals.kept_waits import OPEN_WAIT as NO_SIGNAL
from duetime.scheduler.store.statements.waiters import OPEN_DEPENDENCY
from duetime.scheduler.task import State
from sqlalchemy import Connection, bindparam, select

_OVERLOOKED = (
    select(dependencies.c.upstream_id, runs.c.state)
    .outerjoin_from(dependencies, runs, (runs.c.task_id == dependencies.c.upstream_id) & IS_CURRENT)
    .where(OPEN_DEPENDENCY, runs.c.ended_at.is_not(None) | runs.c.id.is_(None))
    .distinct()
    .limit(bindparam("most"))
)
_AWAITED = (
    select(signal_waits.c.task_id)
    .where(signal_waits.c.waiter_id.in_([runs.c.task_id, runs.c.id]), NO_SIGNAL)
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


def repair(connection: Connection, limit: int, now: datetime) -> int:
    """Go on after ends that older code, a cut or a repair by hand left without; return how many tasks that concerned.

    A task that is there no more counts as cancelled.
    """
    overlooked = connection.execute(_OVERLOOKED, {"most": limit}).all()
    dependants.follow(connection, {row.upstream_id: row.state or State.CANCELLED for row in overlooked}, now)
    decided = list(connection.execute(_FREE_ALREADY, {"most": limit}).scalars())
    dependants.follow(connection, dependants.settle_waiting(connection, decided, now), now)
    return len(overlooked) + len(decided)
