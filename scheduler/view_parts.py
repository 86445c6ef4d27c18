"""Parts of a task's view: an occurrence to come, and a reason why its run waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One firing of a recurrence: the instant, the wall time asked for, and a note where the clocks changed."""

    instant: datetime
    wall: datetime
    note: str | None = None


AT_THE_LATEST: Final = "at the latest"
"""Ends the reason of a run that starts at its time, or before that by an event."""


class WaitKind(StrEnum):
    """Kinds of reasons for a wait; for each of them a card has a text in every language."""

    RESUME = "resume"
    TASK = "task"
    APPROVAL = "approval"
    EVENT = "event"
    STOP = "stop"
    ATTEMPT = "attempt"
    STEP = "step"
    BLOCKED = "blocked"
    START = "start"
    TIME = "time"
    TURN = "turn"
    ROOM = "room"
    NO_WORKER = "nobody"
    QUEUE = "queue"
    POOL = "pool"
    POOL_UNKNOWN = "pool_unknown"
    POOL_TOO_SMALL = "pool_too_small"
    POOL_STOPPED = "pool_stopped"
    POOL_BREAKER = "pool_breaker"


@dataclass(frozen=True, slots=True)
class WaitReason:
    """One reason why a run waits: the sentence, and the same as data for who speaks another language.

    `until` is when it ends, where that is known; `after` is what the handler said last, or the error. `task`, `title`
    and `state` are those of a task that it comes after. `title` of an approval is the question, `run` what asks it.
    `event` is the name of the event that it waits for, `match` what its data have to be. At `until` a run without its
    event or answer `goes_on`, or not.
    A handler that asked continues with the `default_answer`.
    A sentence may stand for a `count` of tasks.
    """

    kind: WaitKind
    sentence: str
    pool: str | None = None
    until: datetime | None = None
    after: str | None = None
    task: str | None = None
    title: str | None = None
    state: str | None = None
    event: str | None = None
    match: str | None = None
    run: str | None = None
    goes_on: bool | None = None
    default_answer: str | None = None
    count: int = 1


_KINDS_IN_ROWS: Final = frozenset({
    *(WaitKind.APPROVAL, WaitKind.EVENT, WaitKind.TIME),
    *(WaitKind.POOL, WaitKind.POOL_UNKNOWN, WaitKind.POOL_TOO_SMALL, WaitKind.POOL_STOPPED, WaitKind.POOL_BREAKER),
})  # fmt: skip
"""Reasons for which a row has no other words: the end of a pause, the next attempt and what is missing have theirs."""


def waits_in_row(waits: Sequence[WaitReason]) -> tuple[WaitReason, ...]:
    """Return which reasons a row of a list names: the first question, event or pool, if there is any."""
    return tuple(wait for wait in waits if wait.kind in _KINDS_IN_ROWS)[:1]


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a run's log; `number` counts the lines of its attempt from 1."""

    attempt: int
    number: int
    at: datetime
    level: str
    logger: str
    text: str

    @property
    def place(self) -> str:
        """Its name as a cursor: whoever reads on behind it gives this."""
        return f"{self.attempt}.{self.number}"


@dataclass(frozen=True, slots=True)
class RunLog:
    """Lines of one run, oldest first. `cut` counts older lines that were not kept, `more` whether newer ones follow."""

    run_id: str
    task_id: str
    lines: tuple[LogLine, ...] = ()
    cut: int = 0
    more: bool = False
    ended: bool = False
