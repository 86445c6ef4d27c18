"""Steps as they stand in a generation next to the current one, each with the ends of those before it there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from duetime.scheduler.chain.judgement import DependencyLink
from duetime.scheduler.chain.result_schema import mismatch
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.rows import RUN_FIELDS, TASK_FIELDS, task_and_run
from duetime.scheduler.store.schema.tables.chains import chain_steps, dependencies
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.sql.locks import lock_tasks
from duetime.scheduler.store.statements.generations import spawned_rows
from duetime.scheduler.store.statements.generations.spawned_rows import SpawnedLinks
from duetime.scheduler.task import Run, State, Task
from sqlalchemy import BindParameter, Connection, bindparam, select

_IDS: BindParameter[str] = bindparam("task_ids", expanding=True)
_own, _other = chain_steps.alias("own"), chain_steps.alias("other")
_INNER = (
    select(
        dependencies.c.task_id, dependencies.c.upstream_id, dependencies.c.after_failure, dependencies.c.valid_output
    )
    .join_from(dependencies, _own, _own.c.task_id == dependencies.c.task_id)
    .join(_other, (_other.c.task_id == dependencies.c.upstream_id) & (_other.c.chain_id == _own.c.chain_id))
    .order_by(dependencies.c.task_id, dependencies.c.upstream_id)
)
_BEHIND = _INNER.where(dependencies.c.upstream_id == bindparam("of_task"))
_LINKS = _INNER.where(dependencies.c.task_id.in_(_IDS))
_OF_GENERATION = (
    select(*TASK_FIELDS, *RUN_FIELDS)
    .join_from(tasks, runs, runs.c.task_id == tasks.c.id)
    .where(tasks.c.id.in_(_IDS), runs.c.number == bindparam("of_number"))
    .order_by(runs.c.scheduled_for, runs.c.generation)
)


class LaterStep(NamedTuple):
    """A step with its latest run of a generation, and what comes before it there."""

    task: Task
    run: Run
    links: Sequence[DependencyLink]


_Latest = Mapping[str, tuple[Task, Run]]
"""The latest run that each step has of one generation, by task."""


def behind(connection: Connection, step_id: str, number: int) -> list[LaterStep]:
    """Return the steps behind one, as they are in a generation."""
    found = list(connection.execute(_BEHIND, {"of_task": step_id}).scalars())
    return in_generation(connection, found, number) if found else []


def in_generation(connection: Connection, task_ids: Sequence[str], number: int) -> list[LaterStep]:
    """Return these steps as they are in a generation; of two ends at once the second sees the first."""
    lock_tasks(connection, task_ids)
    rows = unreadable.rows(connection, _LINKS, {"task_ids": list(task_ids)})
    links = {task_id: list(group) for task_id, group in groupby(rows, key=lambda row: row.task_id)}
    steps = sorted({*task_ids, *(row.upstream_id for row in rows)})
    given = {"task_ids": steps, "of_number": number}
    latest = {
        task.id: (task, run) for task, run in map(task_and_run, unreadable.rows(connection, _OF_GENERATION, given))
    }
    spawned = spawned_rows.links(connection, [run.id for _, run in latest.values()])
    return [
        LaterStep(*latest[each], [item for link in links.get(each, ()) for item in _links_by(link, latest, spawned)])
        for each in task_ids
        if each in latest
    ]


def _links_by(link: Any, latest: _Latest, spawned: SpawnedLinks) -> list[DependencyLink]:
    """Return how the step before ended, and each task that its latest run spawned."""
    run = latest[link.upstream_id][1] if link.upstream_id in latest else None
    further = spawned.get(run.id, ()) if run else ()
    return [_link(link, latest), *(each._replace(after_failure=link.after_failure) for each in further)]


def _link(link: Any, latest: _Latest) -> DependencyLink:
    """Return how the step before ended in the generation; a result of another form counts as a failure."""
    task, run = latest.get(link.upstream_id, (None, None))
    outcome, differs = run.state if run and run.ended_at else None, None
    if run and link.valid_output and outcome is State.SUCCEEDED:
        differs = mismatch(link.valid_output, run.result)
    outcome, title = State.FAILED if differs else outcome, task.title if task else None
    return DependencyLink(link.upstream_id, title, link.after_failure, outcome, differs, run.ended_at if run else None)
