"""One call that replays or discards dead letters: its arguments, and the letters that it closed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Final, TypedDict

from duetime.scheduler import remedies
from duetime.scheduler.audit.entry import AuditKind
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.history.dead_letters import (
    MAX_REPLAYS,
    ClosedLetter,
    ClosingKey,
    DeadLetterFilter,
    DeadLetterNotFound,
    SkippedLetter,
)
from duetime.scheduler.ids import DRY_RUN_ID, new_id
from duetime.scheduler.intake.bounds import Bound
from duetime.scheduler.records import Change
from duetime.scheduler.request import GivenPayload
from duetime.scheduler.rules.series.reruns import run_under_way
from duetime.scheduler.views import TaskRecord

MAX_LETTERS_CLOSED: Final = 1_000
"""Dead letters that one call replays or discards at most."""

USUAL_LETTERS_COUNT: Final = 100
"""Dead letters that one call replays or discards unless it gives another maximum."""

MAX_LETTERS_SKIPPED: Final = 1_000
"""Letters that a call tries in vain before it ends."""

_TOKEN_CHARS: Final = 20
REPLAYED, DISCARDED = AuditKind.DEAD_LETTER_REPLAYED, AuditKind.DEAD_LETTER_DISCARDED


class ClosingArguments(TypedDict, total=False):
    """The arguments that a replay and a discard have in common: which letters, why, and under which key."""

    where: DeadLetterFilter
    since: Bound | None
    until: Bound | None
    reason: str | None
    max_letters: int
    idempotency_key: str | None


@dataclass(frozen=True, slots=True)
class ClosingCall:
    """A call that closes letters."""

    kind: AuditKind
    run_ids: tuple[str, ...]
    where: DeadLetterFilter = field(default_factory=DeadLetterFilter)
    since: Bound | None = None
    until: Bound | None = None
    reason: str | None = None
    max_letters: int = USUAL_LETTERS_COUNT
    idempotency_key: str | None = None
    payload: GivenPayload | None = None

    @property
    def below(self) -> int | None:
        """Return how many replays led to a run at most, None for any number."""
        return MAX_REPLAYS if self.kind is REPLAYED else None

    def token(self) -> str:
        """Return the token that takes the call back: that of a repeat under its key is the same."""
        if self.idempotency_key is None:
            return f"u_b{new_id('b')[2:]}"
        name = json.dumps([self.kind.value, self.idempotency_key])
        return f"u_b{hashlib.sha256(name.encode()).hexdigest()[:_TOKEN_CHARS]}"

    def key(self) -> ClosingKey | None:
        """Return the caller's key with a digest of what is asked for."""
        if self.idempotency_key is None:
            return None
        asked = json.dumps(asdict(replace(self, idempotency_key=None)), sort_keys=True, default=str)
        return ClosingKey(self.idempotency_key, hashlib.sha256(asked.encode()).hexdigest())


def undo_tokens(closed: Iterable[ClosedLetter]) -> dict[str, str]:
    """Return how each task is taken back of which letters were closed: by the runs that replay it.

    Of a discard, which no run follows, these are the runs whose letters it closed.
    """
    of_task: dict[str, list[str]] = {}
    for letter in closed:
        of_task.setdefault(letter.task_id, []).append(undone_by(letter))
    return {task_id: ",".join(run_ids) for task_id, run_ids in of_task.items()}


def undone_by(letter: ClosedLetter) -> str:
    """Return the run by which the end of a letter is taken back."""
    return letter.replayed_as or letter.run_id


@dataclass(slots=True)
class Closing:
    """Closes letters one by one, and keeps which ones it could not close; `ahead` reads several of them at once."""

    close: Callable[[str, int], ClosedLetter]
    room: int
    ahead: Callable[[Iterable[str]], Iterable[str]] = iter
    closed: list[ClosedLetter] = field(default_factory=list)
    skipped: list[SkippedLetter] = field(default_factory=list)

    def all(self, run_ids: Iterable[str], *, alone: bool) -> None:
        """Close as many as there is room for; of one `alone`, raise why it cannot be closed."""
        for run_id in self.ahead(run_ids) if len(self.closed) < self.room else ():
            try:
                self.closed.append(self.close(run_id, len(self.closed)))
            except (Refused, DeadLetterNotFound) as problem:
                if alone:
                    raise
                self.skipped.append(SkippedLetter(run_id, str(problem)))
            if len(self.closed) == self.room or len(self.skipped) == MAX_LETTERS_SKIPPED:
                return


def named_runs(run_ids: Sequence[str] | None) -> tuple[str, ...]:
    """Return the ids of a call, each once; without ids it means the letters of its filter, with an empty list none."""
    if run_ids is None:
        return ()
    named = tuple(dict.fromkeys(run_ids))
    if not named:
        accepted = "ids of runs; without run_ids, the letters of the filter"
        example = "run_ids=['r_7k3m9qx2w4hb00000000']"
        raise InvalidArgument("run_ids", "it names no run", accepted=accepted, example=example)
    return named


def check_one(call: ClosingCall) -> None:
    """Refuse a payload for any other number of runs than one."""
    if call.payload is not None and len(call.run_ids) != 1:
        raise InvalidArgument(
            "payload",
            "it replaces the payload of one run",
            accepted="with the id of that run alone",
            example="run_ids=['r_7k3m9qx2w4hb00000000']",
        )


def check_none_current(record: TaskRecord) -> None:
    """Refuse a second run of a task of which one has begun, is due, or was started by an earlier replay."""
    run = run_under_way(record)
    if run is not None:
        raise Refused(
            f"{record.task.id} has a run that is {run.state} ({run.id}); name a dead letter to run it anyway.",
            argument="run_id",
            remedy=remedies.Inspect(record.task.id),
        )


def as_replayed(record: TaskRecord, change: Change) -> TaskRecord:
    """Return a task as the replay of one of its letters would leave it; the new run has no id yet."""
    if change.extra_run is None:
        return change.applied_to(record)
    return replace(record, side_runs=(replace(change.extra_run, id=DRY_RUN_ID), *record.side_runs))


def require_reason(reason: str | None) -> None:
    """Raise InvalidArgument where there is no reason."""
    if not (reason or "").strip():
        raise InvalidArgument(
            "reason", "it is missing", accepted="why, for the audit log", example="reason='the CRM is back'"
        )
