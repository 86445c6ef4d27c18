"""The tool `reschedule_task`; its typed call adds the task to the scheduler's own `Reschedule`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from duetime.scheduler.request import Reschedule
from duetime.tools.argument_types import Choices, Flag, Text
from duetime.tools.arguments import Argument
from duetime.tools.definition import (
    DEADLINE,
    DEADLINE_TYPE,
    ESTIMATE,
    KEY,
    NEEDS,
    PAYLOAD,
    PRIORITY,
    RECURRENCE_END,
    REVISION,
    TASK_ID,
    TIME,
    TIMEZONE,
    TITLE,
    Definition,
    Sender,
    hints,
)
from duetime.tools.results import dry_run_answer, task_answer
from mcp.types import CallToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class RescheduleTask(Reschedule):
    """Changes of one task; an argument that is None stays as it is, what `remove` names is emptied."""

    task_id: str
    remove: Sequence[str] = ()
    revision: int | None = None
    idempotency_key: str | None = None
    dry_run: bool = False


def _answer(call: RescheduleTask, sender: Sender) -> CallToolResult:
    changes: dict[str, Any] = {item.name: getattr(call, item.name) for item in fields(Reschedule)}
    changes |= {name: {} for name in _removed(call)}
    view = sender.scheduler.reschedule(
        call.task_id,
        **changes,
        dry_run=call.dry_run,
        revision=call.revision,
        idempotency_key=call.idempotency_key,
        raw=sender.raw,
        by=sender.by,
    )
    return dry_run_answer(view) if call.dry_run else task_answer(view)


def _removed(call: RescheduleTask) -> Sequence[str]:
    both = [name for name in call.remove if getattr(call, name) is not None]
    if both:
        raise REMOVE.problem(f"{both[0]} is also given")
    return call.remove


REMOVE = Argument("remove", Choices(("payload", "needs")), "Empty these", "remove=['needs']")
RESCHEDULE_TASK = Definition(
    "reschedule_task",
    "Change a task",
    "Change a task's time, recurrence, text, payload or urgency; pause it, resume it, or skip its next run. "
    "Given arguments change, the rest stays.",
    (
        TASK_ID,
        REVISION,
        TITLE,
        Argument("when", TIME, "As in schedule_task", "when='tomorrow 9am'"),
        replace(TIMEZONE, about="IANA name; default: the task's own zone"),
        Argument(
            "repeat", Text(400, "a recurrence"), "As in schedule_task; 'never' makes it run once", "repeat='daily'"
        ),
        RECURRENCE_END,
        PAYLOAD,
        replace(PRIORITY, about="Until the run has started, as the next four"),
        DEADLINE,
        replace(DEADLINE_TYPE, about=""),
        replace(ESTIMATE, about="'none': learn it again"),
        NEEDS,
        REMOVE,
        Argument("pause", Flag(), "true pauses it, false resumes it", "pause=true"),
        Argument("skip_next", Flag(), "Skip the next occurrence", "skip_next=true"),
        Argument("all_following", Flag(), "With when: move the whole series, not only the next", "all_following=true"),
        Argument("dry_run", Flag(), "Only show what would change", "dry_run=true"),
        KEY,
    ),
    RescheduleTask,
    _answer,
    hints(idempotent=True, outside=True),
)
