"""The tool `list_tasks`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.ids import is_id
from duetime.scheduler.task import Json
from duetime.scheduler.views import TaskFilter
from duetime.tools.arguments.arguments import Argument
from duetime.tools.arguments.choices import Choice
from duetime.tools.arguments.filters import MEANT_STATES, STATE_WORDS, parts_of
from duetime.tools.arguments.types import Text, Whole
from duetime.tools.definition import TIME, Definition, Sender, hints
from duetime.tools.results import page_answer
from duetime.widgets.cards import TASK_LIST
from mcp.types import CallToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTasks:
    """A page of the tasks that all filters match."""

    state: str | None = None
    label: str | None = None
    query: str | None = None
    before: str | None = None
    after: str | None = None
    limit: int = 20
    cursor: str | None = None


def _answer(call: ListTasks, sender: Sender) -> CallToolResult:
    where = TaskFilter(**parts_of(call.state), label=call.label, query=call.query)
    page = sender.scheduler.tasks.list(
        where,
        after=call.after,
        before=call.before,
        limit=call.limit,
        cursor=call.cursor,
        by=sender.by,
        mention=True,
    )
    return page_answer(page)


_WEEKDAY = r"(?:(?:next|last|this) )?(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_DAY: Final = re.compile(rf"today|tomorrow|yesterday|{_WEEKDAY}|[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}", re.IGNORECASE)
_OF_A_DAY: Final = ("date", "day", "when", "due_date", "due", "due_on", "on", "period", "timeframe", "range")
_PERIOD: Final = re.compile(r"(?:next|last|this) (?:week|month|year)", re.IGNORECASE)


def _on_a_day(name: str) -> Callable[[Json], InvalidArgument]:
    """Return the problem of a day under `name`, with the two filters that are its start and its end."""

    def problem(given: Json) -> InvalidArgument:
        words = given if isinstance(given, str) else ""
        day = words if _DAY.fullmatch(words) or _PERIOD.fullmatch(words) else "tomorrow"
        example = f"after={day!r}, before={day!r}"
        return InvalidArgument(name, "a list has no day", accepted="after and before", example=example)

    return problem


def _one(given: Json) -> InvalidArgument:
    """Return how one task is read."""
    example = f"get_task(task_id={given!r})" if isinstance(given, str) and is_id(given) else ""
    return InvalidArgument("task_id", "list_tasks finds many; get_task reads one", accepted="get_task", example=example)


LIST_TASKS = Definition(
    "list_tasks",
    "List tasks",
    "Find tasks: a line each, counts by state, and what was missed: unread outcomes.",
    (
        Argument(
            "state",
            Choice(STATE_WORDS, MEANT_STATES),
            "open: all still to come; ended: all over; ready: due, also while a pool holds it; "
            "failed: when it last ran, and why; dead_letter: not yet replayed or discarded",
            "state='open'",
        ),
        Argument("label", Text(60), "A whole label", "label='workflow=onboarding'"),
        Argument("query", Text(200), "Part of the title", "query='john'"),
        Argument("before", TIME, "Due before this: 'friday' is the next", "before='friday'"),
        Argument("after", TIME, "Due at or after: 'friday' is the last; 'now', 'tomorrow'", "after='yesterday'"),
        Argument("limit", Whole(1, 100), "Default 20", "limit=20"),
        Argument("cursor", Text(400), "From the previous answer, for the next page"),
    ),
    ListTasks,
    _answer,
    hints(read_only=True, idempotent=True, outside=False),
    card=TASK_LIST,
    output="list",
    describes_output=True,
    elsewhere={**{name: _on_a_day(name) for name in _OF_A_DAY}, "task_id": _one},
)
