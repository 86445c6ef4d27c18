"""The tool `act_on_task`: the buttons of cards, offered to models where a host draws no cards."""

from __future__ import annotations

from dataclasses import dataclass

from duetime.scheduler.request import ACTIONS_OF_AGENTS, ActionOnTask
from duetime.scheduler.task import ApprovalAnswer
from duetime.tools.arguments.arguments import SAMPLE_TASK_ID, Argument
from duetime.tools.arguments.choices import Choice
from duetime.tools.arguments.types import Text, Whole
from duetime.tools.definition import IDEMPOTENCY_KEY, REVISION, TASK_ID, TIME, Definition, Sender, hints
from duetime.tools.results import task_answer
from mcp.types import CallToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class ActOnTask:
    """A button that was pressed; a snooze is by `minutes` or `until` a time, `undo` is the token of a change."""

    task_id: str
    action: ActionOnTask
    revision: int | None = None
    minutes: int | None = None
    until: str | None = None
    undo: str | None = None
    reason: str | None = None
    idempotency_key: str | None = None


def _answer(call: ActOnTask, sender: Sender) -> CallToolResult:
    view = sender.scheduler.act(
        call.task_id,
        call.action,
        minutes=call.minutes,
        until=call.until,
        undo=call.undo,
        reason=call.reason,
        revision=call.revision,
        idempotency_key=call.idempotency_key,
        raw=sender.raw,
        by=sender.by,
    )
    return task_answer(view)


_TASK = f"task_id={SAMPLE_TASK_ID!r}"
_MEANT = {
    **dict.fromkeys(("complete", "completed", "finish", "finished", "mark-done", "mark-as-done", "close"), "done"),
    **dict.fromkeys(("read", "mark-read", "mark-as-read", "acknowledge", "ack", "dismiss"), "done"),
    **dict.fromkeys(("run", "start", "execute", "retry", "rerun", "run-again", "trigger"), "run_now"),
    **dict.fromkeys(("delay", "postpone", "defer", "remind-later"), "snooze"),
    "skip": "skip_next",
    "revert": "undo",
    "restore": "undo",
    **dict.fromkeys(("cancel", "delete", "remove", "stop"), f"cancel_task({_TASK})"),
    "pause": f"reschedule_task({_TASK}, pause=true)",
    "resume": f"reschedule_task({_TASK}, pause=false)",
    **dict.fromkeys(("reschedule", "move", "update", "edit"), f"reschedule_task({_TASK}, when='tomorrow 9am')"),
}
"""Other words for an action, and for what another tool does."""

_ACTION = Choice((*ACTIONS_OF_AGENTS, *ApprovalAnswer), _MEANT, hidden=tuple(ApprovalAnswer))
"""Cards approve and reject; a refusal, which models read, offers neither."""

ACT_ON_TASK = Definition(
    "act_on_task",
    "Act on a task",
    "Do what a button on the task's card does: snooze, run now or again, skip the next run, undo a change, "
    "or mark the outcome as read (done).",
    (
        TASK_ID,
        Argument("action", _ACTION, "", "run_now", required=True),
        REVISION,
        Argument("minutes", Whole(1, 527_040), "Snooze by", "minutes=10"),
        Argument("until", TIME, "Snooze until", "until='tomorrow 9am'"),
        Argument("undo", Text(60), "Token from the change's answer"),
        Argument("reason", Text(200), "Of approve and reject", "reason='too much'"),
        IDEMPOTENCY_KEY,
    ),
    ActOnTask,
    _answer,
    hints(idempotent=True, outside=True),
    for_models=False,
)
