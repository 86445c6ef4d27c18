"""The tool `cancel_task`."""

from __future__ import annotations

from dataclasses import dataclass

from duetime.tools.arguments.arguments import Argument
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


CANCEL_TASK = Definition(
    "cancel_task",
    "Cancel a task",
    "Cancel a task with all its coming runs. It can be undone for 30 s.",
    (TASK_ID, Argument("reason", Text(200), "Kept in the history", "reason='not needed'"), REVISION, IDEMPOTENCY_KEY),
    CancelTask,
    _answer,
    hints(destructive=True, idempotent=True, outside=False),
)
