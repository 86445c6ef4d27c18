"""The tool `act_on_task`: the buttons of cards, offered to models where a host draws no cards."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.request import ACTIONS_OF_AGENTS, ActionOnTask
from duetime.scheduler.rules.time.durations import parse_exact
from duetime.scheduler.task import ApprovalAnswer, Json
from duetime.tools.arguments.arguments import SAMPLE_TASK_ID, ActionOfTask, Argument
from duetime.tools.arguments.choices import Choice
from duetime.tools.arguments.meant_names import MAX_SNOOZE_MINUTES, minutes_of
from duetime.tools.arguments.time_text import is_time
from duetime.tools.arguments.types import Text, Whole
from duetime.tools.arguments.unknown_names import as_call
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

_SNOOZED: Final = re.compile(
    r"(?:snooze|postpone|delay|defer|push|remind(?: me)?(?: again)?)[\W_]*(?:(?:for|by|until|till)\b)?(.*?)\W*",
    re.IGNORECASE,
)
_IN: Final = re.compile(r"^in\s+", re.IGNORECASE)
_TOKEN: Final = re.compile(r"(?:undo|revert)\W+(u_\w+)\W*", re.IGNORECASE)
_WORD: Final = re.compile(r"\w+")
_MEMBERS: Final = ("minutes", "until", "undo", "reason")


def _pressed(given: Json) -> Mapping[str, Json]:
    """Return the button and the rest of it that one value holds: `snooze 15 minutes`, `undo u_3`; nothing of others."""
    if isinstance(given, dict):
        word = next((given[name] for name in ("type", "name", "action") if given.get(name)), None)
        members = {name: given[name] for name in _MEMBERS if given.get(name)}
        return {**_pressed(word), **members} if isinstance(word, str) else {}
    text = given.strip() if isinstance(given, str) else ""
    if token := _TOKEN.fullmatch(text):
        return {"action": "undo", "undo": token[1]}
    if not (snoozed := _SNOOZED.fullmatch(text)):
        first = _WORD.match(text.lower().replace("-", "_"))
        return {"action": first[0]} if first and first[0] in ACTIONS_OF_AGENTS else {}
    rest = snoozed[1].strip()
    minutes = minutes_of(_IN.sub("", rest))
    return {"action": "snooze", **({"minutes": minutes} if minutes else {"until": rest} if is_time(rest) else {})}


@dataclass(frozen=True, slots=True)
class _Action(Argument):
    """The button; models write the length of a snooze, or the token of an undo, next to its name."""

    def problem_in(self, call: Mapping[str, Json], problem: str, action_of: ActionOfTask) -> InvalidArgument:
        """Return what is wrong with the value of a call, with all that it holds in arguments of their own."""
        meant = dict(_pressed(call[self.name]))
        if meant.get("action") == "snooze" and len(meant) == 1 and not (call.get("minutes") or call.get("until")):
            meant["minutes"] = 10
        if not meant:
            return Argument.problem_in(self, call, problem, action_of)
        return InvalidArgument(self.name, problem, accepted=self.kind.accepted, example=as_call(meant))


@dataclass(frozen=True, slots=True)
class _Minutes(Whole):
    """Whole minutes, or their length in words."""

    def read(self, given: Json) -> int:
        if isinstance(given, str) and not given.strip().isdecimal():
            minutes = minutes_of(given)
            if minutes is not None and parse_exact(given) == timedelta(minutes=minutes):
                return Whole.read(self, minutes)
        return Whole.read(self, given)

    def corrected(self, given: Json) -> Json:
        """Return the nearest number of minutes that is accepted."""
        is_too_long = type(given) in {int, float} and minutes_of(given) is None
        return self.high if is_too_long else minutes_of(given)


_ACTION = Choice((*ACTIONS_OF_AGENTS, *ApprovalAnswer), _MEANT, hidden=tuple(ApprovalAnswer))
"""Cards approve and reject; a refusal, which models read, offers neither."""

ACT_ON_TASK = Definition(
    "act_on_task",
    "Act on a task",
    "Do what a button on the task's card does: snooze, run now or again, skip the next run, undo a change, "
    "or mark the outcome as read (done).",
    (
        TASK_ID,
        _Action("action", _ACTION, "", "run_now", required=True),
        REVISION,
        Argument("minutes", _Minutes(1, MAX_SNOOZE_MINUTES), "Snooze by", "minutes=10"),
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
