"""Says what a task waits for, in the words of tools."""

from __future__ import annotations

import re

from duetime.scheduler.remedies import reason_in
from duetime.scheduler.rules.states import BLOCKED
from duetime.scheduler.task import State
from duetime.widgets.quote import QuoteLimits, cut, quoted, sentences
from duetime.widgets.schema.task import TaskPayload
from duetime.widgets.tool_words import TOOL_WORDS

NEXT_STEP = re.compile(r"its next step( in [0-9a-z ]+)?")
"""The reason of a suspended run whose handler gave none."""

_FOREIGN = frozenset({State.SUSPENDED, State.RETRYING})
"""States in which what a handler said is a reason for waiting."""


def waits_in_words(task: TaskPayload, room: QuoteLimits) -> str:
    """Name each reason that keeps a task from running; a paused one says so first."""
    reasons = [reason_in(TOOL_WORDS, reason, task.id) for reason in task.waiting_for or ()]
    held = [f"{reasons[0][0].upper()}{reasons.pop(0)[1:]}."] if task.paused and reasons else []
    return sentences(*held, *(_waiting(reason, task.state, room) for reason in reasons))


def _waiting(reason: str, state: State, room: QuoteLimits) -> str:
    if reason.startswith(BLOCKED):
        return f"Blocked: {quoted(reason.removeprefix(BLOCKED), room.text)}."
    if state not in _FOREIGN:
        return f"Waiting for {cut(reason, room.text + 100)}."
    head, after, error = reason.partition(" after: ")
    if after or NEXT_STEP.fullmatch(head):
        return f"Waiting for {head}{after}{quoted(error, room.text) if after else ''}."
    return f"Waiting: {quoted(head, room.text)}."
