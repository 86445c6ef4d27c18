"""The argument that names the task of a call: its id, which a title finds with list_tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.task import Json
from duetime.tools.arguments.arguments import Argument, Elsewhere
from duetime.tools.arguments.unknown_names import is_short


@dataclass(frozen=True, slots=True)
class TaskId(Argument):
    """The id of the task; a call that names it by its title has to find it first."""

    def missing_in(self, call: Mapping[str, Json]) -> InvalidArgument:
        """Return the problem of a call without an id, with the search for the title that it has."""
        title = next((call[name] for name in TITLE_NAMES if isinstance(call.get(name), str)), None)
        if title is None or not is_short(title):
            return Argument.missing_in(self, call)
        return _search(self.name, "it is missing", title)


def found_by_title(name: str) -> Elsewhere:
    """Return the problem of a title where an id is wanted."""
    return lambda given: _search(name, "a task is named by its id", given)


def _search(name: str, problem: str, title: Json) -> InvalidArgument:
    example = f"list_tasks(query={title!r})" if isinstance(title, str) and is_short(title) else ""
    return InvalidArgument(name, problem, accepted="task_id, as list_tasks returns it", example=example)


TITLE_NAMES = ("title", "query", "name", "task_name")
BY_TITLE = {name: found_by_title(name) for name in TITLE_NAMES}
"""The problems of a call that names its task by a title."""
