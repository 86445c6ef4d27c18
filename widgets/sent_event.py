"""The answer to an event that was sent, as data and in words."""

from __future__ import annotations

from typing import Annotated, Literal

from duetime.scheduler.rules.time.times import utc
from duetime.scheduler.waits.signal import SentSignal
from duetime.widgets.schema.part import PayloadPart
from pydantic import Field


class SentEventPayload(PayloadPart):
    """An event that was sent: how many tasks continue by it, and how many wait for something else as well.

    `repeated`: it was known by its id, so nothing was done, and the counts are those of the first time. `undo`: nothing
    takes an event back.
    """

    schema_: Annotated[Literal["duetime.event/1"], Field(alias="schema")] = "duetime.event/1"
    id: str
    name: str
    at: str
    freed: int
    still_waiting: int
    repeated: bool
    undo: Literal["none"] = "none"


def sent_event_payload(sent: SentSignal) -> SentEventPayload:
    """Return the answer as data."""
    signal = sent.signal
    at = utc(signal.at) if signal.at else ""
    return SentEventPayload(
        id=signal.id, name=signal.name, at=at, freed=sent.freed, still_waiting=sent.matched, repeated=sent.repeated
    )


def sent_event_text(sent: SentEventPayload) -> str:
    """Return the answer in words."""
    event = f"The event {sent.name!r} ({sent.id})"
    began = (
        f"{event} was sent before, so nothing was done now; when it first came, it"
        if sent.repeated
        else f"{event} was sent. It"
    )
    text = f"{began} released {_released(sent.freed)}."
    if sent.still_waiting:
        waits = "waits" if sent.still_waiting == 1 else "wait"
        text += f" {_tasks(sent.still_waiting).capitalize()} had waited for it and still {waits} for something else."
    return f"{text} An event cannot be taken back."


def _released(count: int) -> str:
    """Say how many tasks it released: those that are paused, or due later, start later."""
    if not count:
        return "no task"
    return f"{_tasks(count)}, which {'starts' if count == 1 else 'start'} when due (unless paused)"


def _tasks(count: int) -> str:
    return "1 task" if count == 1 else f"{count:,} tasks"
