"""The parts of a history: attempts and events."""

from __future__ import annotations

from typing import Annotated, Literal

from duetime.scheduler.task import State
from duetime.widgets.schema.part import PayloadPart
from pydantic import Field


class AttemptPart(PayloadPart):
    """One try of a run; `run` counts the runs of the task that have started, so that tries of different ones differ.

    Of a chain, `step` is the step that was tried.
    """

    step: str | None = None
    run: int | None = None
    number: int
    started: str
    ended: str | None = None
    outcome: str | None = None
    reason: str | None = None
    traceback: str | None = None


class EventPart(PayloadPart):
    """A change to the task: its actor, its kind, its time and its reason.

    `via` is by which way a caller made it: `mcp 10.0.0.7`, `rest 10.0.0.7`, `cli ann`, `python` or `stdio`.
    `changes` maps what was changed to [before, after] in words, where an empty text stands for nothing; times are wall
    times of the task's zone. Of a chain, `step` is the step that changed.
    """

    at: str
    step: str | None = None
    kind: str
    actor: str
    via: str | None = None
    reason: str | None = None
    from_state: Annotated[State | None, Field(alias="from")] = None
    to_state: Annotated[State | None, Field(alias="to")] = None
    changes: dict[str, tuple[str, ...]] | None = None


class HistoryPart(PayloadPart):
    """The attempts of a task and its events, newest first; `older` when there are more that were left out."""

    attempts: tuple[AttemptPart, ...] = ()
    events: tuple[EventPart, ...] = ()
    older: Literal[True] | None = None
