"""The tool `get_task`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from duetime.scheduler.events import EventFilter
from duetime.scheduler.intake.validation import WAIT_EXAMPLE, wait_seconds
from duetime.scheduler.task import State
from duetime.tools.arguments.arguments import Argument
from duetime.tools.arguments.task_id import BY_TITLE
from duetime.tools.arguments.time_text import Length
from duetime.tools.arguments.types import Flag
from duetime.tools.definition import TASK_ID, Definition, Sender, hints
from duetime.tools.results import history_part, task_answer
from duetime.tools.threads import wait_for_end
from mcp.types import CallToolResult

if TYPE_CHECKING:
    from duetime.scheduler.views import TaskView
    from duetime.widgets.schema.history_parts import HistoryPart


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTask:
    """One task; `history` adds its attempts and events, and marks its outcomes as read unless they `keep_unread`.

    With `wait` it is answered once its run has ended.
    """

    task_id: str
    history: bool = False
    keep_unread: bool = False
    wait: str | float | None = None


async def _until_it_ended(call: GetTask, sender: Sender) -> None:
    if call.wait is not None:
        await wait_for_end(sender.scheduler.ends, call.task_id, wait_seconds(call.wait), sender.by)


def _answer(call: GetTask, sender: Sender) -> CallToolResult:
    view = sender.scheduler.get(call.task_id, by=sender.by)
    if call.history and not call.keep_unread:  # who asks what happened to a task reads its outcomes
        sender.scheduler.inbox_changes.mark_read(task_id=call.task_id, by=sender.by)
    history = _history(call.task_id, view, sender) if call.history else None
    asked = call.history and (view.record.task.repeat is not None or _has_failed(view))
    letter = sender.scheduler.letters.newest_of(call.task_id, by=sender.by) if asked else None
    return task_answer(view, history, details=True, letter=letter, whole=call.keep_unread)


def _has_failed(view: TaskView) -> bool:
    record = view.record
    return State.FAILED in {run.state for run in (record.run, record.last_run) if run}


def _history(task_id: str, view: TaskView, sender: Sender) -> HistoryPart:
    page = sender.scheduler.past.events(EventFilter(task_id=task_id), by=sender.by)
    attempts = sender.scheduler.past.attempts(task_id, by=sender.by)
    return history_part(attempts, page, view)


WAIT = Argument("wait", Length(), "Answer when its run has ended, or after this time (5 min at most)", WAIT_EXAMPLE)
KEEP_UNREAD = Argument("keep_unread", Flag(), "History leaves its outcomes unread", "keep_unread=true")
"""Given by a card, since the model has not read what the user sees there."""

GET_TASK = Definition(
    "get_task",
    "Show a task",
    "Everything about one task: state, times, last outcome, delivery; with history also what happened and why.",
    (
        TASK_ID,
        Argument("history", Flag(), "With attempts, events and the whole result", "history=true"),
        KEEP_UNREAD,
        WAIT,
    ),
    GetTask,
    _answer,
    hints(read_only=True, idempotent=True, outside=False),
    describes_output=True,
    before_answer=_until_it_ended,
    elsewhere=BY_TITLE,
)
