"""Parts of a task's view: an occurrence to come, and a reason why its run waits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One firing of a recurrence: the instant, the wall time asked for, and a note where the clocks changed."""

    instant: datetime
    wall: datetime
    note: str | None = None


class WaitKind(StrEnum):
    """Kinds of reasons for a wait; for each of them a card has a text in every language."""

    RESUME = "resume"
    STOP = "stop"
    ATTEMPT = "attempt"
    STEP = "step"
    START = "start"
    TIME = "time"
    TURN = "turn"
    ROOM = "room"
    NOBODY = "nobody"
    QUEUE = "queue"
    POOL = "pool"
    POOL_UNKNOWN = "pool_unknown"
    POOL_TOO_SMALL = "pool_too_small"
    POOL_STOPPED = "pool_stopped"
    POOL_BREAKER = "pool_breaker"


@dataclass(frozen=True, slots=True)
class WaitReason:
    """One reason why a run waits: the sentence, and the same as data for who speaks another language.

    `until` is when it ends, where that is known; `after` is what the handler said last, or the error.
    """

    kind: WaitKind
    sentence: str
    pool: str | None = None
    until: datetime | None = None
    after: str | None = None
