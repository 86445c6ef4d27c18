"""Tasks that wait for others, as the order of the others' runs needs them: read with each run that becomes ready.

Nothing of this is stored: the open dependencies are the truth, and what is read from them is never out of date.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime

from duetime.scheduler.run_records import ReadyRun, Waiter
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.rows import IS_CURRENT
from duetime.scheduler.store.schema.tables.chains import dependencies
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.sql.commit_notes import notes_of
from duetime.scheduler.task import State
from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    FromClause,
    Select,
    bindparam,
    false,
    literal_column,
    select,
    true,
)

MAX_WAITERS_READ = 2_000
"""Dependencies that one read follows, nearest first. The bonus is bounded, so that more would hardly change a place."""

MAX_UPSTREAMS_READ = 500
"""Dependencies that are followed up from a task which waits, nearest first, to ready runs that get a new place."""

MAX_RUNS_RESCORED = 1_000
"""Ready runs that get a new place by one change of what waits for them."""

OPEN_DEPENDENCY: ColumnElement[bool] = literal_column("dependencies.closed_at IS NULL")
"""The condition of open dependencies: literal, as in the partial index."""

_IDS: BindParameter[str] = bindparam("task_ids", expanding=True)

_FIRST = select(dependencies.c.upstream_id.label("root"), dependencies.c.upstream_id, dependencies.c.task_id).where(
    dependencies.c.upstream_id.in_(_IDS), OPEN_DEPENDENCY
)
_BELOW = _FIRST.cte("below", recursive=True)
_BELOW = _BELOW.union(
    select(_BELOW.c.root, dependencies.c.upstream_id, dependencies.c.task_id)
    .join_from(_BELOW, dependencies, dependencies.c.upstream_id == _BELOW.c.task_id)
    .where(OPEN_DEPENDENCY)
)
_NEAREST = select(_BELOW).limit(bindparam("most")).subquery("nearest")
_WAITERS = (
    select(
        _NEAREST.c.root,
        _NEAREST.c.upstream_id,
        _NEAREST.c.task_id,
        tasks.c.priority,
        tasks.c.action,
        runs.c.deadline,
        tasks.c.estimate,
        tasks.c.deadline_after,
    )
    .join_from(_NEAREST, tasks, tasks.c.id == _NEAREST.c.task_id)
    .join(runs, (runs.c.task_id == tasks.c.id) & IS_CURRENT)
    .where(runs.c.state == State.WAITING, tasks.c.paused == false())
)
_FOLLOWED = select(tasks.c.id).where(
    tasks.c.tenant == bindparam("tenant"), tasks.c.id == bindparam("of_task"), tasks.c.followed == true()
)
_WAITS = dependencies.c.closed_at.is_(None).is_(true())  # not as in the partial index, which has no order by task


def _upwards(first: Select[tuple[str]]) -> FromClause:
    """Return these tasks and what they wait for, directly or behind others, the nearest first."""
    above = first.cte("above", recursive=True)
    more = select(dependencies.c.upstream_id).join_from(above, dependencies, dependencies.c.task_id == above.c.task_id)
    return select(above.union(more.where(_WAITS))).limit(bindparam("followed")).subquery("near")


_NEAR = _upwards(select(dependencies.c.upstream_id.label("task_id")).where(dependencies.c.task_id.in_(_IDS), _WAITS))
_READY_ABOVE = (
    select(runs.c.id)
    .join_from(_NEAR, runs, (runs.c.task_id == _NEAR.c.task_id) & IS_CURRENT)
    .where(runs.c.state == State.READY)
    .limit(bindparam("most"))
)
_THESE = _upwards(select(tasks.c.id.label("task_id")).where(tasks.c.id.in_(_IDS)))
_READY_OR_ENDED = (
    select(runs.c.task_id, runs.c.id, runs.c.state)
    .join_from(_THESE, runs, (runs.c.task_id == _THESE.c.task_id) & IS_CURRENT)
    .where((runs.c.state == State.READY) | runs.c.ended_at.is_not(None))
)

_BEGUN = (
    select(dependencies.c.task_id)
    .join_from(dependencies, runs, (runs.c.task_id == dependencies.c.task_id) & IS_CURRENT)
    .where(dependencies.c.upstream_id == bindparam("of_task"), OPEN_DEPENDENCY)
    .where(dependencies.c.tenant == bindparam("tenant"), runs.c.started_at >= bindparam("since"))
    .order_by(dependencies.c.task_id)
)


def of_tasks(connection: Connection, task_ids: Sequence[str], now: datetime) -> dict[str, frozenset[Waiter]]:
    """Return the waiters of each of these tasks, direct and indirect ones, without deadlines that have passed."""
    found: dict[str, set[Waiter]] = {}
    given = {"task_ids": list(task_ids), "most": MAX_WAITERS_READ}
    for root, upstream_id, task_id, tier, action, deadline, estimate, relative in unreadable.rows(
        connection, _WAITERS, given
    ):
        presses = deadline if relative is None and deadline is not None and deadline > now else None
        found.setdefault(root, set()).add(Waiter(upstream_id, task_id, tier, action, presses, estimate))
    return {root: frozenset(each) for root, each in found.items()}


def of_task(connection: Connection, tenant: str, task_id: str, now: datetime) -> frozenset[Waiter]:
    """Return the waiters of a task of the tenant; makes no further query where no task comes after it."""
    if connection.execute(_FOLLOWED, {"tenant": tenant, "of_task": task_id}).first() is None:
        return frozenset()
    return of_tasks(connection, [task_id], now).get(task_id, frozenset())


def begun_since(connection: Connection, tenant: str, task_id: str, since: datetime) -> list[str]:
    """Return the tasks that still come after an open one, but whose runs began since then."""
    return list(connection.execute(_BEGUN, {"tenant": tenant, "of_task": task_id, "since": since}).scalars())


def with_waiters(connection: Connection, ready: list[ReadyRun], now: datetime) -> list[ReadyRun]:
    """Return the runs with their waiters; makes no query where no task comes after theirs."""
    followed = [run.task_id for run in ready if run.followed]
    if not followed:
        return ready
    found = of_tasks(connection, followed, now)
    return [replace(run, waiters=found[run.task_id]) if run.task_id in found else run for run in ready]


def note(connection: Connection, task_ids: Sequence[str]) -> None:
    """Note the ready runs for which these tasks wait, or waited; after the commit they get new keys in the queue."""
    if task_ids:
        followed = max(MAX_UPSTREAMS_READ, len(task_ids))
        given = {"task_ids": list(task_ids), "followed": followed, "most": MAX_RUNS_RESCORED}
        notes_of(connection).rescored.extend(connection.execute(_READY_ABOVE, given).scalars())


def note_above(connection: Connection, task_ids: Collection[str]) -> dict[str, State]:
    """Note the ready runs of these tasks and of what they wait for, as `note` does; return which of them have ended."""
    if not task_ids:
        return {}
    given = {"task_ids": list(task_ids), "followed": MAX_UPSTREAMS_READ + len(task_ids)}
    found = connection.execute(_READY_OR_ENDED, given).all()
    ready = [row.id for row in found if row.state is State.READY]
    notes_of(connection).rescored.extend(ready[:MAX_RUNS_RESCORED])
    return {row.task_id: row.state for row in found if row.state is not State.READY and row.task_id in task_ids}
