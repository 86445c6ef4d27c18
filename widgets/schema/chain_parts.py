"""The part of a payload that shows a chain: its progress and, of a whole chain, each step."""

from __future__ import annotations

from duetime.scheduler.task import State
from duetime.widgets.schema.part import PayloadPart


class StepPart(PayloadPart):
    """One step: the id of its task, its state, when it is due, what it comes after, and why it failed."""

    name: str
    id: str
    title: str | None = None
    action: str
    state: State
    when: str
    after: tuple[str, ...] | None = None
    why: str | None = None


class ChainPart(PayloadPart):
    """A chain: how many of its steps have succeeded, and which failed. `step` is the one that the task itself is.

    The answer about a whole chain has its `steps`, upstreams first.
    """

    id: str
    title: str
    step: str | None = None
    done: int
    of: int
    failed: tuple[str, ...] | None = None
    steps: tuple[StepPart, ...] | None = None
