"""Dead letters: runs that are out of attempts; and what became of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from duetime.scheduler.errors import DuetimeError, IdempotencyConflict
from duetime.scheduler.ids import is_run_id
from duetime.scheduler.task import Attempt, Json

MAX_REPLAYS: Final = 3
"""Replays after which a run that failed again is replayed only where it is named."""

MAX_LETTERS_COUNTED: Final = 10_000
"""Dead letters up to which a bulk replay counts how many match."""


class LetterState(StrEnum):
    """The state of a dead letter; an open one waits for somebody to replay or discard it."""

    OPEN = "open"
    REPLAYED = "replayed"
    DISCARDED = "discarded"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A run that is out of attempts: the payload as it was, and every attempt with its reason.

    `replayed_as` is the run that a replay made. `replays` counts the replays that led to this run.
    """

    run_id: str
    task_id: str
    tenant: str
    at: datetime
    reason: str
    payload: Mapping[str, Json]
    closed_at: datetime | None = None
    replayed_as: str | None = None
    attempts: tuple[Attempt, ...] = ()
    title: str = ""
    action: str = ""
    replays: int = 0

    @property
    def state(self) -> LetterState:
        """Return whether it is open, and how it was closed."""
        if self.closed_at is None:
            return LetterState.OPEN
        return LetterState.REPLAYED if self.replayed_as else LetterState.DISCARDED


@dataclass(frozen=True, slots=True)
class DeadLetterFilter:
    """A filter for dead letters; absent parts match everything. `since` is inclusive, `until` exclusive.

    `text` is a part of the title or of the reason, in any case. `state` None matches closed ones too.
    """

    state: LetterState | None = LetterState.OPEN
    task_id: str | None = None
    action: str | None = None
    label: str | None = None
    text: str | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class ClosedLetter:
    """A dead letter that was replayed as another run, or discarded.

    The replay of a recurring task runs in addition to its next occurrence, which is due at `next_at`.
    """

    run_id: str
    task_id: str
    replayed_as: str | None = None
    next_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ClosingKey:
    """The idempotency key of a call that closes letters, with a digest of what the call requests.

    Each letter that the call closes has a `number`, so that no two calls with the key close more than one may.
    """

    text: str
    arguments_digest: str
    number: int = 0


@dataclass(frozen=True, slots=True)
class EarlierClosing:
    """The letters that calls with the same key closed, in order; `at` is when the first one was closed."""

    letters: tuple[ClosedLetter, ...] = ()
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SkippedLetter:
    """A dead letter that stays open, and why."""

    run_id: str
    why: str


@dataclass(frozen=True, slots=True)
class LettersClosed:
    """The result of a replay or a discard; of a dry run, what that would close and skip.

    `matched` open letters match. Of these `held_back` are left out, as they were replayed too often. After the call
    `still_open` of the others are, if they were counted. `undo` takes all of it back until `undo_until`.
    With `at_least` more letters may match than were counted.
    """

    matched: int
    held_back: int = 0
    closed: tuple[ClosedLetter, ...] = ()
    skipped: tuple[SkippedLetter, ...] = ()
    dry_run: bool = False
    undo: str | None = None
    undo_until: datetime | None = None
    still_open: int | None = None

    @property
    def at_least(self) -> bool:
        """Whether `matched` and `left` may be higher: no more than MAX_LETTERS_COUNTED letters are counted."""
        return self.matched >= MAX_LETTERS_COUNTED

    @property
    def left(self) -> int:
        """Return how many matching letters were neither closed, skipped nor held back."""
        left = max(self.matched - self.held_back - len(self.closed) - len(self.skipped), 0)
        return left if self.still_open is None else min(left, self.still_open)


class DeadLetterNotFound(DuetimeError):
    """No dead letter of this tenant is of the run."""

    code = "not_found"

    def __init__(self, run_id: str) -> None:
        hint = "" if is_run_id(run_id) else " The id of a run starts with r_; the list of dead letters shows it."
        super().__init__(f"no dead letter of a run {run_id[:40]!r}.{hint}", argument="run_id")


class ClosingConflict(IdempotencyConflict):
    """The key was used before by a call that replays or discards other dead letters."""

    def __init__(self, key: str) -> None:
        self.key = key
        text = f"{key[:60]!r} has replayed or discarded other dead letters already. Use a new key."
        DuetimeError.__init__(self, text, argument="idempotency_key")
