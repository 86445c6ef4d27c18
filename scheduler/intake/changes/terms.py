"""Changes of the terms of a task: what its results have to meet, what follows from a failure, where outcomes go."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from duetime.scheduler.calls.origin import CHANNEL_PREFIX, ORIGIN, read_origin
from duetime.scheduler.calls.reschedule import Reschedule
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.intake.changes.draft import ChangeDraft
from duetime.scheduler.intake.terms.outcome_contract import check_expected
from duetime.scheduler.intake.validation import ProblemCollector
from duetime.scheduler.outbound.target import WATCH, WEBHOOK
from duetime.scheduler.principal import Principal
from duetime.scheduler.rules.failures.follow_up import ON_FAILURE_NOTIFY
from duetime.scheduler.rules.redact import redacted_json
from duetime.scheduler.rules.retry import retries_in_words
from duetime.scheduler.rules.sanitize import quoted
from duetime.scheduler.rules.states import blocked_by
from duetime.scheduler.task import Run, State, Task
from duetime.scheduler.translatable import NoteKind, Translatable

AFTER_THE_ATTEMPT = Translatable.of(
    NoteKind.AFTER_THE_ATTEMPT,
    "the running attempt is unchanged; retry, deliver_to, expect and on_failure apply from the next one",
)
PAUSED_AFTER_THE_ATTEMPT = Translatable.of(
    NoteKind.AFTER_THE_ATTEMPT, "the running attempt continues; the pause applies from the next one"
)
PAUSED_ELSEWHERE = Translatable.of(
    NoteKind.PAUSED_ELSEWHERE,
    "its external worker is asked to give way at its next heartbeat; if it does not, the pause applies from the next "
    "attempt",
)

MAX_PAYLOAD_CHARS: Final = 160
"""Of the new members of a payload in the note: a note is a sentence."""

_MESSAGE: Final = frozenset({"message"})
_SHOWN_MEMBERS: Final = {WEBHOOK: {"url"}, WATCH: {"url", "check", "condition", "changed", "every", "until"}}
"""Members of payloads that answers show as the target of the task."""


def terms_step(draft: ChangeDraft) -> ChangeDraft:
    """Change what the results of the task have to meet, and what follows from its failures."""
    request, task, planner = draft.request, draft.task, draft.planner
    if request.expect is None and request.on_failure is None:
        return draft
    by = Principal(task.tenant, task.owner)
    problems, reader = ProblemCollector(), planner.follow_ups(by, draft.now, task.origin)
    problems.of(check_expected, request, planner.handlers, task.action)
    on_failure = None if request.on_failure is None else problems.of(reader.read, request.on_failure)
    if problems:
        raise problems.error()
    expect = task.expect if request.expect is None else request.expect
    return draft.with_task(expect=expect, on_failure=task.on_failure if on_failure is None else on_failure)


def unblock(run: Run) -> Run:
    """Return a run that has another payload now: what it missed with the old one is not known of it."""
    return replace(run, summary=None) if run.state is State.SCHEDULED and blocked_by(run) else run


def new_value_notes(before: Task, after: Task) -> tuple[str, ...]:
    """Say what the new retries of a task are, and the new members of its payload that an answer shows nowhere else."""
    retries = (retries_in_words(after.retry),) if after.retry != before.retry else ()
    shown = _SHOWN_MEMBERS.get(after.action, _MESSAGE)
    names = [name for name in {**after.payload, **before.payload} if name not in shown]
    new = {name: after.payload.get(name) for name in names if after.payload.get(name) != before.payload.get(name)}
    if not new:
        return retries
    shown_values = quoted(json.dumps(redacted_json(new), ensure_ascii=False), MAX_PAYLOAD_CHARS)
    return (
        *retries,
        Translatable.of(NoteKind.NEW_PAYLOAD, f"its payload now has {shown_values}", payload=shown_values),
    )


def running_attempt_note(draft: ChangeDraft) -> tuple[str, ...]:
    """Say that a running attempt ends by the terms that it began with."""
    was, task, request = draft.record.task, draft.task, draft.request
    if draft.record.run.state is not State.RUNNING:
        return ()
    changed = _terms(was) != _terms(task) or (was.deliver_to != task.deliver_to and not task.repeat)
    paused = (request.pause or request.pause_until is not None) and not was.paused
    then = PAUSED_ELSEWHERE if task.action in draft.planner.handlers.external else PAUSED_AFTER_THE_ATTEMPT
    return (*((AFTER_THE_ATTEMPT,) if changed else ()), *((then,) if paused else ()))


def _terms(task: Task) -> tuple[object, ...]:
    return task.retry, task.expect, task.on_failure


def delivers_to_origin(request: Reschedule) -> bool:
    """Whether a change sends outcomes to the conversation that asks for it."""
    return ORIGIN in (request.deliver_to or ()) or (request.on_failure or {}).get(ON_FAILURE_NOTIFY) == ORIGIN


def with_origin(task: Task, request: Reschedule) -> Task:
    """Return the task with the origin of a change that sends outcomes back, if it names one.

    An origin that names a client alone, as a handshake does, leaves an origin of this client as it is. Raises
    InvalidArgument for an origin that is none, or that nothing goes back to.
    """
    if request.origin is None:
        return task
    origin, old = read_origin(request.origin), task.origin.get("client")
    if not delivers_to_origin(request):
        raise InvalidArgument(
            "origin",
            "nothing is sent back to it",
            accepted="with deliver_to=['origin'], or on_failure={'notify': 'origin'}",
            example="deliver_to=['origin'], origin={'client': 'my-app'}",
        )
    if list(origin) == ["client"] and origin["client"] == old:
        return task
    moved = {f"{CHANNEL_PREFIX}{old}": f"{CHANNEL_PREFIX}{origin['client']}"}
    channels = tuple(moved.get(name, name) for name in task.deliver_to)
    return replace(task, origin=origin, deliver_to=channels, on_failure=_moved(task.on_failure, moved))


def _moved(on_failure: Mapping[str, object], addresses: Mapping[str, str]) -> Mapping[str, object]:
    channel = on_failure.get(ON_FAILURE_NOTIFY)
    return (
        {**on_failure, ON_FAILURE_NOTIFY: addresses[channel]}
        if isinstance(channel, str) and channel in addresses
        else on_failure
    )
