"""Adds up the runs that ended in some time, by action: by the index of ended runs, tenant by tenant."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from duetime.scheduler.history.costs import CostGroup
from duetime.scheduler.history.work_report import ActionWork, WorkDone
from duetime.scheduler.rules.limits.price import amount_of
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.lists.tenants import tenants
from duetime.scheduler.store.run_history.cost_sums import cost_sums
from duetime.scheduler.store.schema.tables.dead_letters import dead_letters
from duetime.scheduler.store.schema.tables.pools import pools, usage
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.task import State
from sqlalchemy import Connection, and_, case, false, func, or_, select, true

MAX_RUNS_SUMMED: Final = 500_000
"""Ended runs that a report adds up."""

_ENDS: Final = (State.SUCCEEDED, State.FAILED, State.EXPIRED, State.CANCELLED)


def work_done(connection: Connection, tenant: str | None, since: datetime, until: datetime) -> WorkDone:
    """Return the work of one tenant, or of all."""
    named = tenants(connection) if tenant is None else [tenant]
    actions = _actions(connection, named, since, until)
    at_least = sum(each.ended for each in actions) >= MAX_RUNS_SUMMED
    units = _units(connection, since, until) if tenant is None else {}
    costs = cost_sums(connection, named, since, until, groups=(CostGroup.TENANT,), zone="UTC")
    return WorkDone(since, until, tuple(actions), units, at_least, amount_of(sum(costs.values())))


def _actions(connection: Connection, named: Sequence[str], since: datetime, until: datetime) -> list[ActionWork]:
    ended = (
        select(runs.c.id, runs.c.task_id, runs.c.state, runs.c.deadline, runs.c.ended_at)
        .where(runs.c.tenant.in_(named), or_(runs.c.current == true(), runs.c.current == false()))
        .where(runs.c.phase.in_(_ENDS), runs.c.listed_at >= since, runs.c.listed_at < until)
        .limit(MAX_RUNS_SUMMED)
        .subquery()
    )
    due = and_(ended.c.deadline.is_not(None), ended.c.state != State.CANCELLED)
    late_by = dialect_of(connection).microseconds(ended.c.deadline, ended.c.ended_at)
    late = and_(due, ended.c.ended_at > ended.c.deadline)
    missed = and_(due, or_(ended.c.state != State.SUCCEEDED, ended.c.ended_at > ended.c.deadline))
    statement = (
        select(
            tasks.c.action,
            func.count(),
            func.count(case((ended.c.state == State.FAILED, 1))),
            func.count(dead_letters.c.run_id),
            func.count(case((ended.c.state == State.EXPIRED, 1))),
            func.count(case((ended.c.state == State.CANCELLED, 1))),
            func.count(case((due, 1))),
            func.count(case((missed, 1))),
            func.count(case((late, 1))),
            func.sum(case((late, late_by), else_=0)),
            func.max(case((late, late_by), else_=0)),
        )
        .select_from(
            ended.join(tasks, tasks.c.id == ended.c.task_id).outerjoin(
                dead_letters, and_(dead_letters.c.run_id == ended.c.id, ended.c.state == State.FAILED)
            )
        )
        .group_by(tasks.c.action)
        .order_by(tasks.c.action)
    )
    return [_action_work(row) for row in connection.execute(statement)]


def _action_work(row: Any) -> ActionWork:
    *counts, lateness, latest = row
    values: list[Any] = [*counts, *(timedelta(microseconds=int(each)) for each in (lateness, latest))]
    return ActionWork(*values)


def _units(connection: Connection, since: datetime, until: datetime) -> dict[str, float]:
    """Return the units used of each declared pool; those of a template's members are not added up."""
    names = list(connection.execute(select(pools.c.name).where(pools.c.spec.is_not(None))).scalars())
    statement = (
        select(usage.c.pool, func.sum(usage.c.units))
        .where(usage.c.pool.in_(names), usage.c.at >= since, usage.c.at < until)
        .group_by(usage.c.pool)
    )
    return {pool: float(units) for pool, units in connection.execute(statement)}
