"""The part of a payload that shows a chain: its progress and, of a whole chain, each step."""

from __future__ import annotations

from typing import Literal

from duetime.scheduler.task import State
from duetime.widgets.schema.part import PayloadPart


class StepPart(PayloadPart):
    """One step: the id of its task, its state, when it is due, what it comes after, and why it failed.

    `unverified` is in what the result of one that succeeded is not as expected. A step `paused` without
    `paused_until` waits until somebody resumes it.
    """

    name: str
    id: str
    title: str | None = None
    action: str
    state: State
    when: str
    after: tuple[str, ...] | None = None
    why: str | None = None
    unverified: str | None = None
    paused: Literal[True] | None = None
    paused_until: str | None = None


class ChainPart(PayloadPart):
    """A chain: how many of its steps have succeeded, which of these are unverified, and which failed.

    `step` is the one that the task itself is.

    The answer about a whole chain has its `steps`, upstreams first.
    """

    id: str
    title: str
    step: str | None = None
    done: int
    of: int
    failed: tuple[str, ...] | None = None
    unverified: tuple[str, ...] | None = None
    steps: tuple[StepPart, ...] | None = None
