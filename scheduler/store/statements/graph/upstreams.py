"""Tasks that others come after, as they are read: for plans, for explanations and for handlers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from duetime.scheduler.chain.dependency import RunWaits, Upstream
from duetime.scheduler.ids import is_chain_id, is_id
from duetime.scheduler.rules.series.occurrence_wait import waiter_of
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.rows import IS_CURRENT
from duetime.scheduler.store.schema.tables.approvals import approvals
from duetime.scheduler.store.schema.tables.chains import chain_steps, dependencies
from duetime.scheduler.store.schema.tables.signals import signal_waits
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.sql.unindexed_column import unindexed
from duetime.scheduler.store.statements.endings import follow_ups, last_results
from duetime.scheduler.store.statements.generations import spawned_rows
from duetime.scheduler.store.statements.waiters import OPEN_DEPENDENCY
from duetime.scheduler.task import Json, Run, State
from duetime.scheduler.views import TaskRecord
from sqlalchemy import BindParameter, Connection, bindparam, case, exists, func, or_, select, true

MAX_RUNS_OF_TASK: Final = 2**31 - 1
"""No run of a task has a higher number: it counts them."""

_IDS: BindParameter[str] = bindparam("task_ids", expanding=True)
_UPSTREAMS = (
    select(tasks.c.id, tasks.c.title, runs.c.state, OPEN_DEPENDENCY)
    .join_from(dependencies, tasks, tasks.c.id == dependencies.c.upstream_id)
    .join(runs, (runs.c.task_id == tasks.c.id) & IS_CURRENT)
    .where(dependencies.c.task_id == bindparam("of_task"), dependencies.c.tenant == bindparam("tenant"))
    .order_by(tasks.c.created_at, tasks.c.id)
)
_waiting = runs.alias("waiting")
_ALSO_WAITS = or_(  # not as in the partial indexes, which have no order by what waits
    exists().where(approvals.c.run_id == bindparam("of_run"), approvals.c.closed_at.is_(None).is_(true())),
    exists().where(signal_waits.c.waiter_id == bindparam("waiter"), signal_waits.c.closed_at.is_(None).is_(true())),
)
_OF_WAITING = (
    select(_ALSO_WAITS.label("also_waits"), tasks.c.id, tasks.c.title, runs.c.state, OPEN_DEPENDENCY)
    .select_from(
        _waiting.outerjoin(dependencies, dependencies.c.task_id == _waiting.c.task_id)
        .outerjoin(tasks, tasks.c.id == dependencies.c.upstream_id)
        .outerjoin(runs, (runs.c.task_id == tasks.c.id) & IS_CURRENT)
    )
    .where(_waiting.c.id == bindparam("of_run"), (_waiting.c.tenant == bindparam("tenant")).is_(true()))
    .order_by(tasks.c.created_at, tasks.c.id)
)
_KNOWN = (
    select(tasks.c.id, tasks.c.title, runs.c.state)
    .join_from(tasks, runs, (runs.c.task_id == tasks.c.id) & IS_CURRENT)
    .where(unindexed(tasks.c.tenant) == bindparam("tenant"), tasks.c.id.in_(_IDS))
)
_own, _before, _theirs = (chain_steps.alias(name) for name in ("own", "before", "theirs"))
_each = runs.alias("each")
_LATEST = (
    select(_each.c.id)
    .where(_each.c.task_id == dependencies.c.upstream_id)
    .where(_each.c.number <= case((_before.c.task_id.is_not(None), bindparam("until")), else_=MAX_RUNS_OF_TASK))
    .where(_each.c.ended_at.is_not(None), _each.c.started_at.is_not(None))
    .order_by(_each.c.number.desc(), _each.c.ended_at.desc(), _each.c.generation.desc())
    .limit(1)
    .correlate(dependencies, _before)
    .scalar_subquery()
)
"""The run of an upstream whose result is read; its index holds the runs of a task by their numbers."""

_RESULTS = (
    select(
        runs.c.id,
        runs.c.task_id,
        runs.c.result,
        runs.c.number,
        _before.c.name,
        _theirs.c.chain_id,
        _theirs.c.name.label("step"),
    )
    .select_from(dependencies)
    .outerjoin(_own, _own.c.task_id == dependencies.c.task_id)
    .outerjoin(_before, (_before.c.task_id == dependencies.c.upstream_id) & (_before.c.chain_id == _own.c.chain_id))
    .outerjoin(_theirs, _theirs.c.task_id == dependencies.c.upstream_id)
    .join(runs, runs.c.id == _LATEST)
    .where(dependencies.c.task_id == bindparam("of_task"), dependencies.c.tenant == bindparam("tenant"))
    .order_by(runs.c.ended_at, runs.c.generation)
)
_OF_GENERATION = select(runs.c.task_id, runs.c.ended_at).where(
    runs.c.task_id.in_(_IDS), runs.c.number == bindparam("of_number")
)
_behind = chain_steps.alias("behind")
_STEPS = (
    select(
        tasks.c.id,
        tasks.c.title,
        runs.c.state,
        chain_steps.c.chain_id,
        select(dependencies.c.task_id)
        .join_from(dependencies, _behind, _behind.c.task_id == dependencies.c.task_id)
        .where(dependencies.c.upstream_id == tasks.c.id, _behind.c.chain_id == chain_steps.c.chain_id)
        .exists()
        .label("followed"),
    )
    .join_from(chain_steps, tasks, tasks.c.id == chain_steps.c.task_id)
    .join(runs, (runs.c.task_id == tasks.c.id) & IS_CURRENT)
    .where(chain_steps.c.tenant == bindparam("tenant"))
    .where(chain_steps.c.chain_id.in_(bindparam("chain_ids", expanding=True)))
    .order_by(chain_steps.c.place, tasks.c.id)
)
_WHOLE = (
    select(chain_steps.c.chain_id)
    .outerjoin_from(
        chain_steps,
        dependencies,
        (dependencies.c.task_id == bindparam("of_task")) & (dependencies.c.upstream_id == chain_steps.c.task_id),
    )
    .where(chain_steps.c.chain_id.in_(bindparam("chain_ids", expanding=True)))
    .group_by(chain_steps.c.chain_id)
    .having(func.count() == func.count(dependencies.c.upstream_id))
)


def known(connection: Connection, tenant: str, task_ids: Sequence[str]) -> dict[str, Upstream]:
    """Return those of these tasks that the tenant has, and the steps of those of these that are its chains."""
    ids = list(filter(is_id, task_ids))
    steps = _steps(connection, tenant, list(filter(is_chain_id, ids)))
    rows = unreadable.rows(connection, _KNOWN, {"tenant": tenant, "task_ids": ids})
    return steps | {row.id: Upstream(row.id, row.title, row.state, row.state not in TERMINAL) for row in rows}


def _steps(connection: Connection, tenant: str, chain_ids: Sequence[str]) -> dict[str, Upstream]:
    rows = unreadable.rows(connection, _STEPS, {"tenant": tenant, "chain_ids": chain_ids}) if chain_ids else []
    return {
        row.id: Upstream(row.id, row.title, row.state, row.state not in TERMINAL, row.chain_id, not row.followed)
        for row in rows
    }


def upstreams(connection: Connection, tenant: str, task_id: str) -> list[Upstream]:
    """Return the upstreams of a task, the oldest first."""
    rows = unreadable.rows(connection, _UPSTREAMS, {"tenant": tenant, "of_task": task_id})
    return [Upstream(row[0], row[1], row[2], bool(row[3])) for row in rows]


def of_waiting(connection: Connection, tenant: str, run_id: str, waiter_id: str) -> RunWaits:
    """Return what a waiting run waits for, by one statement."""
    given = {"tenant": tenant, "of_run": run_id, "waiter": waiter_id}
    rows = unreadable.rows(connection, _OF_WAITING, given)
    found = [Upstream(row[1], row[2], row[3], bool(row[4])) for row in rows if row.id is not None]
    return RunWaits(found, not rows or bool(rows[0].also_waits))


def waits_of(connection: Connection, record: TaskRecord) -> RunWaits | None:
    """Return what the run of a task waits for, in the transaction that has changed it; None for one that does not."""
    task, run = record.task, record.run
    return of_waiting(connection, task.tenant, run.id, waiter_of(task, run)) if run.state is State.WAITING else None


def results(connection: Connection, tenant: str, task_id: str, run: Run | None = None) -> Mapping[str, Json]:
    """Return the last results of what a task comes after: steps of its chain by names, others by ids.

    Of several runs of a step of its chain the one with the highest number counts; of others the one that ended last.
    Results of a whole chain stand by its id, by names of steps. A task that a failure made has that as `failure`. Of
    steps of its chain a `run` gets no results of later generations, and none of one that ended unstarted in its own.
    Next to the current generation it also gets those of the tasks that were spawned in its own.
    """
    given = {"tenant": tenant, "of_task": task_id, "until": run.number if run else MAX_RUNS_OF_TASK}
    rows = unreadable.rows(connection, _RESULTS, given)
    unstarted = _unstarted(connection, rows, run.number) if run else ()
    rows = [row for row in rows if row.task_id not in unstarted]
    cause = follow_ups.failure(connection, tenant, task_id)
    others = last_results.last(connection, [row.task_id for row in rows if not row.name])
    whole = _whole(connection, task_id, {row.chain_id for row in rows if row.chain_id and not row.name})
    result_of = {row.task_id: row.result for row in rows} | others
    found: dict[str, Any] = {
        row.name or row.task_id: result_of[row.task_id] for row in rows if row.chain_id not in whole
    }
    for row in rows:
        if row.chain_id in whole:
            found.setdefault(row.chain_id, {})[row.step] = result_of[row.task_id]
    if run and not run.current:
        found |= spawned_rows.results(connection, [row.id for row in rows if row.name])
    return {**found, "failure": cause.as_input()} if cause else found


def _unstarted(connection: Connection, rows: Sequence[Any], number: int) -> set[str]:
    """Return the steps of these results that ended in a generation without a start."""
    started = {row.task_id for row in rows if row.number == number}
    others = {row.task_id for row in rows if row.name} - started
    given = {"task_ids": sorted(others), "of_number": number}
    found = connection.execute(_OF_GENERATION, given).all() if others else []
    return {row.task_id for row in found} - {row.task_id for row in found if row.ended_at is None}


def _whole(connection: Connection, task_id: str, chain_ids: Iterable[str]) -> set[str]:
    """Return those of the chains whose steps are all upstreams of the task."""
    given = {"of_task": task_id, "chain_ids": sorted(chain_ids)}
    return set(connection.execute(_WHOLE, given).scalars()) if given["chain_ids"] else set()
