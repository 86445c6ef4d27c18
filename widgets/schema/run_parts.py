"""The parts of a task that say how its runs go: the last one, its progress, its log, what it waits for."""

from __future__ import annotations

from typing import Any, Final, Literal

from duetime.scheduler.history.dead_letters import LetterState
from duetime.scheduler.task import ApprovalAnswer, DeliveryState, State
from duetime.widgets.schema.part import PayloadPart


class LastRun(PayloadPart):
    """The latest run that ended; `summary` is what its handler said of it, the error, or why it did not run.

    `attempts` are those of one that failed or expired. `unverified` is why one that succeeded is not what was expected.
    """

    state: State
    ended: str | None = None
    summary: str | None = None
    attempts: int | None = None
    unverified: str | None = None


class TargetPart(PayloadPart):
    """Where a webhook or a watch sends its requests; a watch looks `every` so often, and `ends` then.

    The instant of that end is `until`, once it is known: a length of time counts from the first look.
    The `address` has no query; for a watch without one it is the name of its check. A watch
    has its `condition`, or the part of the answer that has to be `changed` (`@` is all of it).
    """

    address: str
    every: str | None = None
    ends: str | None = None
    until: str | None = None
    condition: str | None = None
    changed: str | None = None


class LetterPart(PayloadPart):
    """The dead letter of a run that failed for good, `open` until somebody replays or discards it.

    `payload` is what the run was given, with secrets as `***`; `cut` where it is too long for the answer.
    """

    run: str
    state: LetterState
    since: str
    attempts: int
    reason: str
    payload: Any = None
    cut: Literal[True] | None = None


class DeliveryPart(PayloadPart):
    """Telling the user: `state` is the worst among the channels, `channel` names those that are in it.

    Quiet hours hold the first of them until `held_until`.
    """

    channel: str
    state: DeliveryState
    error: str | None = None
    held_until: str | None = None


class OriginPart(PayloadPart):
    """The conversation that asked for a task, by the ids that its client gave."""

    client: str
    session: str | None = None
    thread: str | None = None


class KeyPart(PayloadPart):
    """The template of a task's idempotency keys, and the key of its current run by it."""

    template: str
    run: str | None = None


class Unread(PayloadPart):
    """An outcome that nobody has marked as read; `note` is what Duetime adds to it, such as that it came late."""

    task_id: str
    title: str | None = None
    text: str
    note: str | None = None
    state: State
    at: str


class ProgressPart(PayloadPart):
    """Progress of a run: the part that is done, 0 to 1, and what its handler says of it.

    `unknown`: its handler reports no part, so that it is 0.
    """

    part: float
    unknown: Literal[True] | None = None
    text: str | None = None


MORE_WAITS: Final = "more"
"""The kind of the last part of many: it counts the reasons that have no part of their own."""


class WaitPart(PayloadPart):
    """One reason of `waiting_for`, in the same order, for a reader that says it in words of its own.

    `until` is when it ends, if known; `after` what a handler wrote; `title` and `state` are those of the `task`.
    `event` is the name of the one that it waits for, `match` what its data have to be. Without its event or answer a
    run `goes_on` at `until`, or not.
    `default_answer` is what the handler gets then, where it asked. `count` says how many reasons `more` stands for.
    """

    kind: str
    pool: str | None = None
    until: str | None = None
    after: str | None = None
    task: str | None = None
    title: str | None = None
    state: State | None = None
    event: str | None = None
    match: str | None = None
    goes_on: bool | None = None
    default_answer: ApprovalAnswer | None = None
    count: int | None = None


class LogLinePart(PayloadPart):
    """A line that a handler logged; `level` where that is not `info`, `attempt` where it is not the first."""

    at: str
    level: str | None = None
    attempt: int | None = None
    text: str


class LogPart(PayloadPart):
    """The last lines that the handler of the latest run logged, oldest first; `older` where there are more of it."""

    lines: tuple[LogLinePart, ...]
    older: Literal[True] | None = None
