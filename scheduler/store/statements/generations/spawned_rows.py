"""Tasks that runs next to the current generation spawned: the steps behind such a run wait for them too."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from duetime.scheduler.chain.chain import SPAWNED_MARK
from duetime.scheduler.chain.judgement import DependencyLink
from duetime.scheduler.request import AfterFailure
from duetime.scheduler.store.schema.rows import IS_CURRENT
from duetime.scheduler.store.schema.tables.chains import chain_steps, spawned_tasks
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.sql.batch import Batch
from duetime.scheduler.store.statements.endings.claimed_run import AttemptEnd
from duetime.scheduler.task import Json
from sqlalchemy import BindParameter, Connection, bindparam, false, insert, select, union_all

SpawnedLinks = Mapping[str, Sequence[DependencyLink]]
"""The ends of tasks that runs spawned, by run."""

_RUN_IDS: BindParameter[Sequence[str]] = bindparam("run_ids", expanding=True)
_ADD = Batch(insert(spawned_tasks), [column.name for column in spawned_tasks.c])
_ASIDE = union_all(
    select(runs.c.id.label("by_run"), runs.c.id.label("run_id"), chain_steps.c.name)
    .join_from(runs, chain_steps, chain_steps.c.task_id == runs.c.task_id)
    .where(runs.c.id.in_(_RUN_IDS), runs.c.current == false()),
    select(runs.c.id, spawned_tasks.c.run_id, spawned_tasks.c.name)
    .join_from(runs, spawned_tasks, spawned_tasks.c.task_id == runs.c.task_id)
    .where(runs.c.id.in_(_RUN_IDS)),
)
"""Runs whose tasks are of another generation than the current one, each with the run of the step it stems from."""

_OF_RUNS = (
    select(spawned_tasks.c.run_id, spawned_tasks.c.name, tasks.c.id, tasks.c.title, runs.c.state, runs.c.ended_at)
    .add_columns(runs.c.started_at, runs.c.result)
    .join_from(spawned_tasks, tasks, tasks.c.id == spawned_tasks.c.task_id)
    .join(runs, (runs.c.task_id == tasks.c.id) & IS_CURRENT)
    .where(spawned_tasks.c.run_id.in_(_RUN_IDS))
    .order_by(spawned_tasks.c.run_id, tasks.c.id)
)


class Aside(NamedTuple):
    """Runs of steps next to the current generation, and all tasks that are spawned in another generation."""

    run_ids: Collection[str]
    task_ids: Collection[str]


def add(connection: Connection, spawning: Sequence[AttemptEnd]) -> Aside:
    """Note the tasks that these runs spawn in other generations than the current one."""
    new = {end.claim.run_id: end.settlement.spawned for end in spawning}
    aside = connection.execute(_ASIDE, {"run_ids": sorted(new)}).all()
    rows = [
        {
            "task_id": item.task.id,
            "tenant": item.task.tenant,
            "name": f"{row.name}{SPAWNED_MARK}{name}",
            "run_id": row.run_id,
        }
        for row in aside
        for name, item in new[row.by_run]
    ]
    _ADD.run(connection, rows)
    return Aside({row.by_run for row in aside if row.by_run == row.run_id}, [row["task_id"] for row in rows])


def links(connection: Connection, run_ids: Sequence[str]) -> SpawnedLinks:
    """Return how the tasks ended that these runs spawned."""
    found = dict[str, list[DependencyLink]]()
    for row in _rows(connection, run_ids):
        outcome = row.state if row.ended_at else None
        link = DependencyLink(row.id, row.title, AfterFailure.FAIL, outcome, at=row.ended_at)
        found.setdefault(row.run_id, []).append(link)
    return found


def results(connection: Connection, run_ids: Sequence[str]) -> dict[str, Json]:
    """Return the results of the tasks that these runs spawned, by their names."""
    rows = _rows(connection, run_ids)
    return {row.name: row.result for row in rows if row.ended_at and row.started_at}


def _rows(connection: Connection, run_ids: Sequence[str]) -> Sequence[Any]:
    return connection.execute(_OF_RUNS, {"run_ids": list(run_ids)}).all() if run_ids else ()
