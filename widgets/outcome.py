"""The parts of a payload that say how it went: the last run, its delivery, and outcomes that nobody has read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from duetime.scheduler.rules.settlement import words_and_note
from duetime.scheduler.rules.states import FAILURES, OPEN
from duetime.scheduler.task import Delivery, DeliveryState, InboxMessage, State, TaskRecord
from duetime.widgets.quote import cut, one_line
from duetime.widgets.schema import DeliveryPart, LastRun, Unread

LIST_TITLE_CHARS = 40
MAX_SAID_CHARS = 120
"""Characters of what users and handlers wrote: a message, an error, a reason."""

MAX_SENTENCE_CHARS = 240
"""Characters of a sentence of ours: more than any has, so that none is ever cut."""

MAX_MESSAGE_CHARS = 100
MAX_UNREAD_MESSAGES = 5
TOLD = frozenset({State.SUCCEEDED, State.FAILED, State.EXPIRED})
"""How runs end that the user is told of."""

_UNDELIVERABLE = frozenset({State.CANCELLED, State.SKIPPED})


def utc(instant: datetime) -> str:
    """RFC 3339 in UTC, to the second: `2026-11-24T16:00:00Z`."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def last_run_part(record: TaskRecord) -> LastRun | None:
    """Return how the latest run ended; what only repeats the title or the message of the task is left out."""
    run = record.last_run or (record.run if record.run.state not in OPEN else None)
    if run is None:
        return None
    said = run.error if run.state in FAILURES else run.summary
    return LastRun(
        state=run.state,
        ended=utc(run.ended_at) if run.ended_at else None,
        summary=cut(said, MAX_SAID_CHARS) if said and not _is_known(record, said) else None,
        attempts=run.attempt or None if run.state in FAILURES else None,
    )


def _is_known(record: TaskRecord, said: str) -> bool:
    """Whether an outcome only repeats the title or the message, as that of a reminder does."""
    return one_line(said) in {one_line(str(known)) for known in (record.task.title, record.task.payload.get("message"))}


def delivery_part(record: TaskRecord) -> DeliveryPart | None:
    """Return where the outcome is delivered: the worst state among the channels, and those that are in it."""
    for state in (DeliveryState.FAILED, DeliveryState.PENDING, DeliveryState.DELIVERED):
        if found := [delivery for delivery in record.deliveries if delivery.state is state]:
            return _delivered(state, found)
    if record.last_run is not None and record.last_run.state in TOLD:  # the inbox has it as soon as the run settled
        return DeliveryPart(channel="inbox", state=DeliveryState.DELIVERED)
    if record.run.state in _UNDELIVERABLE:
        return None
    channels = dict.fromkeys(("inbox", *record.task.deliver_to))
    return DeliveryPart(channel=cut(", ".join(channels), MAX_SENTENCE_CHARS), state=DeliveryState.PENDING)


def _delivered(state: DeliveryState, deliveries: Sequence[Delivery]) -> DeliveryPart:
    inbox = ("inbox",) if state is DeliveryState.DELIVERED else ()
    channels = dict.fromkeys((*inbox, *(delivery.channel for delivery in deliveries)))
    error = next((delivery.error for delivery in deliveries if delivery.error), None)
    return DeliveryPart(
        channel=cut(", ".join(channels), MAX_SENTENCE_CHARS),
        state=state,
        error=cut(error, MAX_SAID_CHARS) if error and state is not DeliveryState.DELIVERED else None,
    )


def unread_parts(messages: Sequence[InboxMessage], *, titled: bool) -> tuple[Unread, ...] | None:
    """Return the newest unread outcomes; `titled` where they are of several tasks."""
    return tuple(_message_part(message, titled=titled) for message in messages[:MAX_UNREAD_MESSAGES]) or None


def _message_part(message: InboxMessage, *, titled: bool) -> Unread:
    words, note = words_and_note(message.text)
    return Unread(
        task_id=message.task_id,
        title=cut(message.title, LIST_TITLE_CHARS) if titled else None,
        text=cut(words, MAX_MESSAGE_CHARS),
        note=note or None,
        state=message.state,
        at=utc(message.created_at),
    )
