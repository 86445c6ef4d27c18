"""Says what a task waits for, in the words of tools."""

from __future__ import annotations

import re

from duetime.scheduler.remedies import PAUSED_UNTIL_PREFIX, Resume, reason_in
from duetime.scheduler.rules.states import BLOCKED_PREFIX
from duetime.scheduler.task import State
from duetime.scheduler.view_parts import WaitKind
from duetime.widgets.quote import QuoteLimits, cut, quoted, sentences
from duetime.widgets.schema.task import TaskPayload
from duetime.widgets.text.summary import look
from duetime.widgets.tool_words import TOOL_WORDS

NEXT_STEP = re.compile(r"its next step( in [0-9a-z ]+)?")
"""The reason of a suspended run whose handler gave none."""

_QUOTATION = re.compile("«([^»]*)»")
_SIGNALS = frozenset({WaitKind.APPROVAL, WaitKind.EVENT})

_FOREIGN = frozenset({State.SUSPENDED, State.RETRYING})
"""States in which what a handler said is a reason for waiting."""


def waits_in_words(task: TaskPayload, room: QuoteLimits) -> str:
    """Name each reason that keeps a task from running; a paused one says so first."""
    kinds = dict(enumerate(wait.kind for wait in task.waits or ()))
    reasons = [reason_in(TOOL_WORDS, reason, task.id) for reason in task.waiting_for or ()]
    held = [_held(reason, task) for place, reason in enumerate(reasons) if kinds.get(place) == WaitKind.RESUME]
    rest = list(enumerate(reasons))[len(held) :]
    return sentences(*held, *(_waiting(reason, kinds.get(place), task.state, room) for place, reason in rest))


def _held(reason: str, task: TaskPayload) -> str:
    """Return a pause as a sentence; that of a step begins with the step's name, which stays as it is."""
    if look(task) == "paused" and task.paused_until and reason.startswith(PAUSED_UNTIL_PREFIX):
        resume = TOOL_WORDS.remedy(Resume(task.id))
        return f"To go on sooner, {resume[0].lower()}{resume[1:]}"  # the first sentence says until when
    of_step = task.chain is not None and not task.paused
    return f"Step {reason}." if of_step else f"{reason[0].upper()}{reason[1:]}."


def _bounded(reason: str, room: QuoteLimits) -> str:
    """Return a wait for an answer or an event, with its quotations cut and what follows without one whole."""
    fenced = _QUOTATION.sub(lambda found: quoted(found[1], room.text), reason)
    head, comma, then = fenced.rpartition(", ")
    return f"{cut(head, room.text + 100)}{comma}{then}" if comma else cut(fenced, room.text + 100)


def _waiting(reason: str, kind: str | None, state: State, room: QuoteLimits) -> str:
    if kind in _SIGNALS:
        return f"Waiting for {_bounded(reason, room)}."
    if reason.startswith(BLOCKED_PREFIX):
        return f"Blocked: {quoted(reason.removeprefix(BLOCKED_PREFIX), room.text)}."
    if state not in _FOREIGN:
        return f"Waiting for {cut(reason, room.text + 100)}."
    head, after, error = reason.partition(" after: ")
    if after or NEXT_STEP.fullmatch(head):
        return f"Waiting for {head}{after}{quoted(error, room.text) if after else ''}."
    return f"Waiting: {quoted(head, room.text)}."
