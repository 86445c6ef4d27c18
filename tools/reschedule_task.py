"""The tool `reschedule_task`; its typed call adds the task to the scheduler's own `Reschedule`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from duetime.scheduler.calls.reschedule import REMOVABLE_ARGUMENTS, REMOVED_BY_VALUE, Reschedule
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.request import DEADLINE_KINDS, AfterFailure
from duetime.scheduler.rules.retry import retry_policy
from duetime.scheduler.task import Json, Notify
from duetime.tools.arguments.approval import ApprovalTerms
from duetime.tools.arguments.arguments import PAYLOAD_EXAMPLES, SAMPLE_TASK_ID, Argument, action_of
from duetime.tools.arguments.choices import Choice, Choices
from duetime.tools.arguments.recurrence_words import RecurrenceText, refuse_no_runs
from duetime.tools.arguments.retry import RetryTerms
from duetime.tools.arguments.steps import VALID_OUTPUT
from duetime.tools.arguments.time_text import PauseFlag
from duetime.tools.arguments.types import Flag
from duetime.tools.arguments.unknown_names import is_text_action
from duetime.tools.arguments.waits import AFTER, AFTER_FAILURE, APPROVAL, WAIT_FOR, EventWait
from duetime.tools.definition import (
    DEADLINE,
    DEADLINE_TYPE,
    DELIVER_TO,
    ESTIMATE,
    EXPECT,
    IDEMPOTENCY_KEY,
    LABELS,
    MAX_RUNS,
    NEEDS,
    NOTIFY,
    ON_FAILURE,
    PAYLOAD,
    PRIORITY,
    RECURRENCE_END,
    REPEAT_POLICY,
    RETRY,
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

_MAX_EMPTY_ARGUMENTS = 3
"""Arguments that a call sends empty on purpose, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RescheduleTask(Reschedule):
    """Changes of one task."""

    task_id: str
    revision: int | None = None
    idempotency_key: str | None = None
    dry_run: bool = False


def _answer(call: RescheduleTask, sender: Sender) -> CallToolResult:
    refuse_no_runs(call.repeat, sender.raw)
    changes: dict[str, Any] = {item.name: getattr(call, item.name) for item in fields(Reschedule)}
    origin = changes["origin"] = sender.origin.of_change(call)
    from_there = {"origin": origin} if origin and call.idempotency_key is None else {}  # equal calls of two chats
    try:
        view = sender.scheduler.reschedule(
            call.task_id,
            **changes,
            dry_run=call.dry_run,
            revision=call.revision,
            idempotency_key=call.idempotency_key,
            raw={**sender.raw, **from_there},
            by=sender.by,
        )
    except InvalidArgument as problem:
        raise _with_removal(problem, sender.raw) from None
    return dry_run_answer(view) if call.dry_run else task_answer(view)


def _rehearse(call: RescheduleTask, sender: Sender) -> None:
    """Raise what is wrong with a call; a handler of one's own checks no payload that only an example says."""
    action = action_of(sender.scheduler, call.task_id, sender.by) if call.payload else None
    if not is_text_action(action) and action not in PAYLOAD_EXAMPLES:
        raise Refused("its handler would check a payload that nobody sent")
    _answer(call, sender)


def _with_removal(problem: InvalidArgument, sent: Mapping[str, Json]) -> InvalidArgument:
    """Return the refusal of a call that changes nothing with how to empty the arguments that it sent empty.

    A client that fills in every argument sends many of them so, and means none.
    """
    emptied = [name for name in REMOVABLE_ARGUMENTS if sent.get(name) is not None and not sent[name]]
    if problem.argument != "changes" or not 0 < len(emptied) <= _MAX_EMPTY_ARGUMENTS:
        return problem
    accepted = f"remove, to empty one; {problem.accepted}"
    said = f"nothing to change was given: an empty {' or '.join(emptied)} leaves it as it is"
    return InvalidArgument(problem.argument, said, accepted=accepted, example=f"remove={emptied!r}")


def _call(*, retry: Mapping[str, int] | None = None, **given: Any) -> RescheduleTask:
    return RescheduleTask(**given, retry=None if retry is None else retry_policy(retry))


_STATES: Mapping[str, str] = {
    **dict.fromkeys(("paused", "pause", "on_hold", "hold", "suspended", "inactive", "disabled"), "pause=true"),
    **dict.fromkeys(("active", "open", "resumed", "scheduled", "pending", "enabled", "running"), "pause=false"),
    "skipped": "skip_next=true",
}
"""Arguments that bring a task to a state, by the word for it."""


def _no_state(name: str) -> Callable[[Json], InvalidArgument]:
    """Return how a task gets another state, where `name` was to set it."""

    def problem(given: Json) -> InvalidArgument:
        cancel = f"cancel_task(task_id={SAMPLE_TASK_ID!r})"
        example = _STATES.get(str(given)[:40].strip().lower().replace(" ", "_"), cancel)
        said = "a task gets another state by what is done to it"
        return InvalidArgument(name, said, accepted="cancel_task; pause; skip_next", example=example)

    return problem


_SKIPS = "true or false; pause_until='monday 9am' passes over all before that time"
"""Models ask for several occurrences to be skipped, such as those of next week."""

RESCHEDULE_TASK = Definition(
    "reschedule_task",
    "Change a task",
    "Change a task's time, recurrence, text, payload, urgency or delivery; pause it, resume it, or skip its next run. "
    "Given arguments change, the rest stays.",
    (
        TASK_ID,
        REVISION,
        TITLE,
        Argument("when", TIME, "As in schedule_task", "when='tomorrow 9am'"),
        replace(TIMEZONE, about="IANA name; default: the task's own zone"),
        Argument("repeat", RecurrenceText(), "As in schedule_task; 'never' makes it run once", "repeat='daily'"),
        RECURRENCE_END,
        replace(MAX_RUNS, about="A higher number lets a used-up series go on"),
        replace(REPEAT_POLICY, about="Replaces the policy"),
        PAYLOAD,
        replace(PRIORITY, about="Only before the run starts, like deadline, estimate and needs"),
        DEADLINE,
        replace(DEADLINE_TYPE, kind=Choice(tuple(DEADLINE_KINDS), listed=False), about="As in schedule_task"),
        replace(ESTIMATE, about="'none': learn it again"),
        NEEDS,
        replace(RETRY, kind=RetryTerms(listed=False), about="Replaces the policy; as in schedule_task"),
        replace(DELIVER_TO, about="Replaces the channels"),
        replace(NOTIFY, kind=Choice(tuple(Notify), listed=False), about="As in schedule_task"),
        replace(EXPECT, about=""),
        replace(ON_FAILURE, about=""),
        replace(LABELS, about="Replaces the labels"),
        replace(AFTER, about="Replaces the list. Only before the run starts, like wait_for"),
        replace(AFTER_FAILURE, kind=Choice(tuple(AfterFailure), listed=False), about=""),
        replace(VALID_OUTPUT, about=""),
        replace(APPROVAL, kind=ApprovalTerms(listed=False), about="Adds it"),
        replace(WAIT_FOR, kind=EventWait(listed=False), about=""),
        Argument(
            "remove",
            Choices(REMOVABLE_ARGUMENTS, REMOVED_BY_VALUE),
            "Arguments to clear or reset to default",
            "remove=['needs']",
        ),
        Argument("pause", PauseFlag(), "true pauses it, false resumes it", "pause=true"),
        Argument("pause_until", TIME, "Pause until then, then resume", "pause_until='monday 9am'"),
        Argument("skip_next", Flag(_SKIPS), "Skip the next occurrence", "skip_next=true"),
        Argument("all_following", Flag(), "With when: move the whole series, not only the next", "all_following=true"),
        Argument("dry_run", Flag(), "Only show what would change", "dry_run=true"),
        IDEMPOTENCY_KEY,
    ),
    _call,
    _answer,
    hints(idempotent=True, outside=True),
    rehearse=_rehearse,
    elsewhere={name: _no_state(name) for name in ("state", "status", "cancel", "delete")},
)
