"""Parts of a payload: what a run waits for, what was sent and what came of it, and which outcomes nobody has read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from duetime.scheduler.history.dead_letters import DeadLetter
from duetime.scheduler.history.run_log import TRACEBACK_LOGGER
from duetime.scheduler.ids import DRY_RUN_ID, is_chain_id
from duetime.scheduler.outbound.target import ADDRESSED_ACTIONS, target_of
from duetime.scheduler.rules.redact import redacted_json
from duetime.scheduler.rules.series.natural_key import key_of_run
from duetime.scheduler.rules.settlement import words_and_note
from duetime.scheduler.rules.states import FAILURES, OPEN
from duetime.scheduler.rules.time.times import utc
from duetime.scheduler.task import ApprovalAnswer, Delivery, DeliveryState, InboxMessage, Json, Notify, Run, State, Task
from duetime.scheduler.view_parts import LogLine, WaitReason
from duetime.scheduler.views import TaskRecord, TaskView
from duetime.widgets.quote import as_text, bounded, cut, one_line
from duetime.widgets.schema.run_parts import (
    DeliveryPart,
    KeyPart,
    LastRun,
    LetterPart,
    LogLinePart,
    LogPart,
    ProgressPart,
    TargetPart,
    Unread,
    WaitPart,
)
from duetime.widgets.schema.task import TaskPayload

LIST_TITLE_CHARS = 40
MAX_SAID_CHARS = 120
"""Characters of what users and handlers wrote: a message, an error, a reason."""

MAX_SENTENCE_CHARS = 240
"""Characters of a sentence of ours: more than any has, so that none is ever cut."""

MAX_CARD_MESSAGE_CHARS = 90
MAX_UNREAD_MESSAGES = 5
TOLD_STATES = frozenset({State.SUCCEEDED, State.FAILED, State.EXPIRED})
"""Ends of runs of which the user is notified."""

MAX_DETAIL_CHARS = 240
"""Characters of a payload, and of a result, as JSON, that an answer to a model has room for."""

MAX_CARD_LOG_LINES = 3
MAX_LOG_CHARS = 240
"""Lines of a log, and characters of their texts, that an answer to a model has room for."""

MAX_HISTORY_LOG_LINES = 20
MAX_HISTORY_LOG_CHARS = 1_200
"""The same with the history."""

MAX_LETTER_CHARS = 1_200
"""Characters of the payload of a dead letter, as JSON, that an answer to a model has room for."""

_FIRST_PLACE = "1.1"
_UNDER_WAY = frozenset({State.RUNNING, State.SUSPENDED, State.RETRYING})
_UNDELIVERABLE = frozenset({State.CANCELLED, State.SKIPPED})


def wait_reason_part(wait: WaitReason) -> WaitPart:
    """Return one reason why a run waits; titles and sentences are cut."""
    until = utc(wait.until) if wait.until else None
    title = cut(wait.title, MAX_SENTENCE_CHARS) if wait.title else None
    return WaitPart(
        kind=wait.kind,
        pool=wait.pool,
        until=until,
        after=cut(wait.after, MAX_SENTENCE_CHARS) if wait.after else None,
        task=wait.task,
        title=title,
        state=State(wait.state) if wait.state else None,
        event=wait.event,
        match=cut(wait.match, MAX_SAID_CHARS) if wait.match else None,
        goes_on=wait.goes_on,
        default_answer=ApprovalAnswer(wait.default_answer) if wait.default_answer else None,
    )


def pause_parts(task: Task, run: Run) -> dict[str, Any]:
    """Return whether an open task is paused, and until when: the pause of one that has ended holds nothing."""
    if not task.paused or run.state not in OPEN:
        return {}
    return {"paused": True, "paused_until": utc(task.paused_until) if task.paused_until else None}


def undo_parts(view: TaskView) -> dict[str, str | None]:
    """Return the token that takes a change back, and until when it does: that of a yes has no time."""
    until = view.undo_until
    return {"undo": view.undo, **({"undo_until": utc(until)} if until else {})}


def last_run_part(record: TaskRecord, newer: Run | None = None) -> LastRun | None:
    """Return how the latest run ended, or a `newer` one; what only repeats the title or the message is left out."""
    run = newer or record.last_run or (record.run if record.run.state not in OPEN else None)
    if run is None:
        return None
    said = None if run.state is State.CANCELLED else run.summary
    reason = run.error if run.state in FAILURES else said or _why_it_did_not_run(run)
    return LastRun(
        state=run.state,
        ended=utc(run.ended_at) if run.ended_at else None,
        summary=cut(reason, MAX_SAID_CHARS) if reason and not _is_known(record, reason) else None,
        attempts=run.attempt or None if run.state in FAILURES else None,
        unverified=cut(run.unverified, MAX_SAID_CHARS) if run.unverified else None,
    )


def _why_it_did_not_run(run: Run) -> str | None:
    """Return why a run was left out or cancelled, where Duetime or an answer decided that: `ann rejected it`."""
    decided = run.started_at is None or run.gives_way  # else its words are those of its last attempt
    return run.error if run.state is State.SKIPPED or (run.state is State.CANCELLED and decided) else None


def _is_known(record: TaskRecord, text: str) -> bool:
    """Whether an outcome only repeats the title or the message, as that of a reminder does."""
    return one_line(text) in {one_line(str(known)) for known in (record.task.title, record.task.payload.get("message"))}


def awaited_event(view: TaskView) -> str | None:
    """Return the name of the event that a task waits for, None where it waits for none."""
    return next((wait.event for wait in view.waits if wait.event), None)


def target_part(task: Task, run: Run) -> TargetPart | None:
    """Return where a webhook or a watch sends its requests, before it has ended."""
    found = target_of(task, run) if run.state in OPEN and task.action in ADDRESSED_ACTIONS else None
    texts = {name: cut(text, MAX_SAID_CHARS) for name, text in asdict(found).items() if text} if found else {}
    return TargetPart(**texts) if found else None


def progress_part(run: Run) -> ProgressPart | None:
    """Return how far a run is that reported it, while it continues."""
    if run.state not in _UNDER_WAY or not isinstance(run.progress, Mapping):
        return None
    part, text = run.progress.get("fraction"), run.progress.get("text")
    if not isinstance(part, int | float) and not text:
        return None
    known = isinstance(part, int | float)
    return ProgressPart(
        part=part if known else 0.0,
        unknown=None if known else True,
        text=cut(text, MAX_SAID_CHARS) if text and isinstance(text, str) else None,
    )


def delivery_part(record: TaskRecord, held_until: datetime | None = None) -> DeliveryPart | None:
    """Return where the outcome is delivered: the worst state among the channels, and those that are in it."""
    if record.task.id == DRY_RUN_ID or is_chain_id(record.task.id):
        return None
    for state in (DeliveryState.FAILED, DeliveryState.PENDING, DeliveryState.DELIVERED):
        if found := [delivery for delivery in record.deliveries if delivery.state is state]:
            return _delivered(record.task, state, found, held_until)
    if (
        record.last_run is not None and record.last_run.state in TOLD_STATES
    ):  # the inbox has it as soon as the run settled
        if record.task.notify is not Notify.ALWAYS and not _is_notified(record.task.notify, record.last_run.state):
            return None
        return DeliveryPart(channel="inbox", state=DeliveryState.DELIVERED)
    if record.run.state in _UNDELIVERABLE:
        return None
    channels = dict.fromkeys(("inbox", *record.task.deliver_to))
    to, held = cut(", ".join(channels), MAX_SENTENCE_CHARS), utc(held_until) if held_until else None
    return DeliveryPart(channel=to, state=DeliveryState.PENDING, held_until=held)


def _is_notified(notify: Notify, state: State) -> bool:
    """Whether an outcome of a task with quiet ones is told for certain."""
    return notify in {Notify.FAILURE, Notify.CHANGE} and state in FAILURES


def _delivered(
    task: Task, state: DeliveryState, deliveries: Sequence[Delivery], held_until: datetime | None
) -> DeliveryPart:
    inbox = ("inbox",) if state is DeliveryState.DELIVERED and task.notify is not Notify.NEVER else ()
    channels = dict.fromkeys((*inbox, *(delivery.channel for delivery in deliveries)))
    error = next((delivery.error for delivery in deliveries if delivery.error), None)
    return DeliveryPart(
        channel=cut(", ".join(channels), MAX_SENTENCE_CHARS),
        state=state,
        error=cut(error, MAX_SAID_CHARS) if error and state is not DeliveryState.DELIVERED else None,
        held_until=utc(held_until) if held_until and state is DeliveryState.PENDING else None,
    )


def unread_parts(messages: Sequence[InboxMessage], *, titled: bool) -> tuple[Unread, ...] | None:
    """Return the newest unread outcomes; `titled` where they are of several tasks."""
    return tuple(_message_part(message, titled=titled) for message in messages[:MAX_UNREAD_MESSAGES]) or None


def _message_part(message: InboxMessage, *, titled: bool) -> Unread:
    words, note = words_and_note(message.text)
    return Unread(
        task_id=message.task_id,
        title=cut(message.title, LIST_TITLE_CHARS) if titled else None,
        text=cut(words, MAX_CARD_MESSAGE_CHARS),
        note=note or None,
        state=message.state,
        at=utc(message.created_at),
    )


def with_details(task: TaskPayload, view: TaskView, *, whole: bool = False) -> TaskPayload:
    """Add payload, result and log; without a history they are short enough for a model, unless they are to be `whole`.

    `cut` names those of message, payload and result that are not whole.
    """
    message, payload = _payload(view.record, task.message)
    known = {
        "message": message,
        "payload": redacted_json(payload) or None,
        "result": redacted_json(_result(view.record)),
    }
    short = {name: bounded(part, MAX_DETAIL_CHARS) for name, part in known.items()}
    shown = known if whole or task.history else {**short, "message": task.message}
    limits = MAX_HISTORY_LOG_LINES, None if whole else MAX_HISTORY_LOG_CHARS
    log = log_part(view, *(limits if whole or task.history else (MAX_CARD_LOG_LINES, MAX_LOG_CHARS)))
    more = {"cost": view.cost, "fire_address": view.addressed or None, "idempotency_key": _key_part(view.record)}
    left_out = tuple(name for name, part in shown.items() if _is_cut(part, known[name]))
    return task.model_copy(update={**shown, "cut": left_out or None, "log": log, **more})


def _is_cut(shown: Json, known: Json) -> bool:
    return shown not in (known, one_line(known) if isinstance(known, str) else known)


def letter_part(letter: DeadLetter, *, whole: bool = False) -> LetterPart:
    """Return a dead letter; its payload is short enough for a model unless it is to be `whole`."""
    payload = redacted_json(dict(letter.payload))
    fits = whole or len(as_text(payload)) <= MAX_LETTER_CHARS
    return LetterPart(
        run=letter.run_id,
        state=letter.state,
        since=utc(letter.at),
        attempts=len(letter.attempts),
        reason=cut(letter.reason, MAX_SAID_CHARS),
        payload=payload if fits else cut(as_text(payload), MAX_LETTER_CHARS),
        cut=None if fits else True,
    )


def _key_part(record: TaskRecord) -> KeyPart | None:
    """Return how the occurrences of a task are known, if by a template."""
    template = record.task.key_template
    return KeyPart(template=template, run=key_of_run(record.task, record.run)) if template else None


def log_part(view: TaskView, lines: int, room: int | None) -> LogPart | None:
    """Return the last lines of the log: at most so many, with `room` for their texts, None for all of each.

    The traceback of a failed attempt is left out: the history has it with the attempt.
    """
    if view.log is None:
        return None
    found = [line for line in view.log.lines if line.logger != TRACEBACK_LOGGER]
    kept: list[LogLinePart] = []
    for line in reversed(found[-lines:]):
        part = _log_line(line, whole=room is None)
        room = None if room is None else room - len(part.text)
        if room is not None and room < 0 and kept:
            break
        kept.insert(0, part)
    older = len(kept) < len(found) or bool(found and found[0].place != _FIRST_PLACE)
    return LogPart(lines=tuple(kept), older=older or None) if kept else None


def _log_line(line: LogLine, *, whole: bool) -> LogLinePart:
    level = line.level if line.level != "info" else None
    attempt = line.attempt if line.attempt > 1 else None
    text = line.text if whole else cut(line.text, MAX_SAID_CHARS)
    return LogLinePart(at=utc(line.at), level=level, attempt=attempt, text=text)


def _payload(record: TaskRecord, outcome_text: str | None) -> tuple[str | None, Mapping[str, Json]]:
    """Return the message of a payload, where it is shown apart, and the rest."""
    payload = {name: part for name, part in record.task.payload.items() if part is not None}
    message = payload.get("message")
    if not isinstance(message, str):
        return None, payload
    del payload["message"]  # or it is the title
    return message if outcome_text else None, payload


def _result(record: TaskRecord) -> Json:
    """Return what the latest attempt gave: of the current run once it has started, else of the last one."""
    run = record.run if record.run.attempt or record.run.state not in OPEN else record.last_run
    result: Json = run.result if run else None
    return result
