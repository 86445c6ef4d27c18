"""Ends of upstreams that decide nothing any more about a task that waits for them, as it runs again since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from duetime.scheduler.chain.judgement import DependencyLink, prevents_run
from duetime.scheduler.store.schema.tables.chains import chain_steps, dependencies
from duetime.scheduler.store.statements import event_log
from sqlalchemy import Connection, bindparam, select

Links = Mapping[str, Sequence[DependencyLink]]
"""The dependencies of tasks, by task."""

_own, _other = chain_steps.alias("own"), chain_steps.alias("other")
_INNER = (
    select(dependencies.c.task_id, dependencies.c.upstream_id)
    .join_from(dependencies, _own, _own.c.task_id == dependencies.c.task_id)
    .join(_other, (_other.c.task_id == dependencies.c.upstream_id) & (_other.c.chain_id == _own.c.chain_id))
    .where(dependencies.c.task_id.in_(bindparam("task_ids", expanding=True)))
)
"""Steps of one chain: a new generation opens these dependencies again."""


def without(connection: Connection, links: Links) -> Links:
    """Leave out ends from before the task was run again, or, outside its chain, from before its current generation."""
    bad = [task_id for task_id, found in links.items() if any(map(prevents_run, found))]
    wanted, generations = event_log.begun_again_at(connection, bad)
    given = {"task_ids": sorted(generations)}
    inner = {tuple(row) for row in connection.execute(_INNER, given)} if generations else set()

    def is_past(task_id: str, link: DependencyLink) -> bool:
        began = None if (task_id, link.upstream_id) in inner else generations.get(task_id)
        return any(at is not None and link.at is not None and link.at <= at for at in (wanted.get(task_id), began))

    left = {task_id: [each for each in links[task_id] if not is_past(task_id, each)] for task_id in bad}
    return {**links, **left}
