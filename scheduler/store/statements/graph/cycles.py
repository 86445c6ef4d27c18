"""Cycles: a task may not come after one that comes after it, directly or behind others.

A dependency that is closed counts too: it is open again once its upstream runs again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from duetime.scheduler import remedies
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.store.schema.tables.chains import dependencies
from sqlalchemy import Connection, bindparam, select

_MAX_PATH_TASKS: Final = 12
_FIRST = select(dependencies.c.upstream_id, dependencies.c.task_id).where(
    dependencies.c.upstream_id == bindparam("of_task")
)
_BELOW = _FIRST.cte("below", recursive=True)
_BELOW = _BELOW.union(
    select(dependencies.c.upstream_id, dependencies.c.task_id).join_from(
        _BELOW, dependencies, dependencies.c.upstream_id == _BELOW.c.task_id
    )
)
_EDGES = select(_BELOW.c.upstream_id, _BELOW.c.task_id)


def check(connection: Connection, task_id: str, upstream_ids: Collection[str]) -> None:
    """Raise InvalidArgument, with the path, where one of these comes after the task that is to come after it."""
    if problem := _problem(connection, task_id, upstream_ids):
        raise InvalidArgument("after", problem, accepted="tasks that do not come after this one")


def check_undo(connection: Connection, task_id: str, upstream_ids: Collection[str]) -> None:
    """Raise Refused, with the path, where one of these comes after the task that came after it before a change."""
    if problem := _problem(connection, task_id, upstream_ids):
        raise Refused(f"{problem}, so that change stays.", argument="undo", remedy=remedies.Inspect(task_id))


def _problem(connection: Connection, task_id: str, upstream_ids: Collection[str]) -> str | None:
    if not upstream_ids:
        return None
    came_from: dict[str, str] = {}
    below: dict[str, list[str]] = {}
    for row in connection.execute(_EDGES, {"of_task": task_id}):
        below.setdefault(row.upstream_id, []).append(row.task_id)
    left = [task_id]
    while left:
        found = left.pop()
        for each in below.get(found, ()):
            if each not in came_from:
                came_from[each] = found
                left.append(each)
    wrong = next((each for each in upstream_ids if each in came_from), None)
    return None if wrong is None else _in_words(task_id, _path(task_id, wrong, came_from))


def _path(task_id: str, upstream_id: str, came_from: dict[str, str]) -> Sequence[str]:
    path = [task_id, upstream_id]
    while path[-1] != task_id:
        path.append(came_from[path[-1]])
    return path


def _in_words(task_id: str, path: Sequence[str]) -> str:
    shown = path if len(path) <= _MAX_PATH_TASKS else [*path[: _MAX_PATH_TASKS - 1], "…", path[-1]]
    return f"{task_id} would come after itself: {' -> '.join(shown)}"
