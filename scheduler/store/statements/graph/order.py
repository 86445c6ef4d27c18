"""The order of tasks that come after one another, directly or behind tasks which are not among them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from graphlib import TopologicalSorter
from typing import Final

from duetime.scheduler.store.schema.tables.chains import dependencies
from sqlalchemy import BindParameter, Connection, bindparam, select

MAX_LINKS_READ: Final = 20_000
"""Dependencies behind tasks that are read, the nearest first. Where there are more, any task may come after another."""

_IDS: BindParameter[str] = bindparam("task_ids", expanding=True)
_FIRST = select(dependencies.c.upstream_id, dependencies.c.task_id).where(dependencies.c.upstream_id.in_(_IDS))
_BELOW = _FIRST.cte("below", recursive=True)
_BELOW = _BELOW.union(
    select(dependencies.c.upstream_id, dependencies.c.task_id).join_from(
        _BELOW, dependencies, dependencies.c.upstream_id == _BELOW.c.task_id
    )
)
_LINKS = select(_BELOW.c.upstream_id, _BELOW.c.task_id).limit(MAX_LINKS_READ)


def in_order(
    connection: Connection, task_ids: Sequence[str], *, last_first: bool = False
) -> tuple[list[str], set[str]]:
    """Return the tasks in the order of their dependencies, or `last_first`; and those that have any among them."""
    if len(task_ids) <= 1:
        return list(task_ids), set()
    above: dict[str, list[str]] = {task_id: [] for task_id in task_ids}
    links = connection.execute(_LINKS, {"task_ids": list(task_ids)}).all()
    for row in links:
        above.setdefault(row.task_id, []).append(row.upstream_id)
    every = list(TopologicalSorter(above).static_order())
    wanted = set(task_ids)
    behind = wanted if len(links) == MAX_LINKS_READ else _behind(every, above, wanted) & wanted
    order = [task_id for task_id in every if task_id in wanted]
    return order[::-1] if last_first else order, behind


def _behind(every: Iterable[str], above: dict[str, list[str]], wanted: set[str]) -> set[str]:
    """Return the tasks that come after one that is `wanted`, directly or behind others; `every` is in order."""
    behind: set[str] = set()
    for task_id in every:
        if any(each in wanted or each in behind for each in above.get(task_id, ())):
            behind.add(task_id)
    return behind
