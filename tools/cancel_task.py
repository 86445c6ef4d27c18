"""The tool `cancel_task`."""

from __future__ import annotations

from dataclasses import dataclass

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.ids import is_id
from duetime.scheduler.task import Json
from duetime.tools.arguments.arguments import Argument
from duetime.tools.arguments.task_id import BY_TITLE
from duetime.tools.arguments.types import Text
from duetime.tools.definition import IDEMPOTENCY_KEY, REVISION, TASK_ID, Definition, Sender, hints
from duetime.tools.results import task_answer
from mcp.types import CallToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelTask:
    """A task to cancel, with all its coming runs; `reason` is kept in its history."""

    task_id: str
    reason: str | None = None
    revision: int | None = None
    idempotency_key: str | None = None


def _answer(call: CancelTask, sender: Sender) -> CallToolResult:
    view = sender.scheduler.cancel(
        call.task_id,
        reason=call.reason,
        revision=call.revision,
        idempotency_key=call.idempotency_key,
        raw=sender.raw,
        by=sender.by,
    )
    return task_answer(view)


def _several(given: Json) -> InvalidArgument:
    """Return how several tasks are cancelled, or the one that is named alone."""
    ids = [given] if isinstance(given, str) else given if isinstance(given, list) else []
    short = [each for each in ids[:MAX_IDS_SHOWN] if isinstance(each, str) and is_id(each)]
    one, many = f"task_id={short[0]!r}" if short else "", f"change_tasks(change='cancel', task_ids={short!r})"
    example = "" if not short or len(short) < len(ids) else one if len(short) == 1 else many
    accepted = "task_id; change_tasks with change='cancel' and task_ids"
    return InvalidArgument("task_ids", "cancel_task cancels one task", accepted=accepted, example=example)


MAX_IDS_SHOWN = 8
"""Ids of tasks in an example."""

CANCEL_TASK = Definition(
    "cancel_task",
    "Cancel a task",
    "Cancel a task with all its coming runs. It can be undone for 30 s.",
    (TASK_ID, Argument("reason", Text(200), "Kept in the history", "reason='not needed'"), REVISION, IDEMPOTENCY_KEY),
    CancelTask,
    _answer,
    hints(destructive=True, idempotent=True, outside=False),
    elsewhere={**BY_TITLE, "task_ids": _several},
)
