"""One call that replays or discards dead letters: its arguments, the tasks that it means, and the letters it closed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Final

from duetime.scheduler import remedies
from duetime.scheduler.audit.entry import AuditKind
from duetime.scheduler.bulk.change import Became, BulkResult, BulkVerb, TaskOutcome
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.history.dead_letters import (
    MAX_REPLAYS,
    ClosedLetter,
    ClosingKey,
    DeadLetterFilter,
    DeadLetterNotFound,
    SkippedLetter,
)
from duetime.scheduler.ids import new_id
from duetime.scheduler.intake.bounds import Bound
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.service.bulk_call import BulkCall, in_order
from duetime.scheduler.store import Store
from duetime.scheduler.task import Json, State
from duetime.scheduler.views import TaskRecord

MAX_LETTERS_CLOSED: Final = 1_000
"""Dead letters that one call replays or discards at most."""

MAX_LETTERS_SKIPPED: Final = 1_000
"""Letters that a call tries in vain before it ends."""

_TOKEN_CHARS: Final = 20
REPLAYED, DISCARDED = AuditKind.DEAD_LETTER_REPLAYED, AuditKind.DEAD_LETTER_DISCARDED


@dataclass(frozen=True, slots=True)
class ClosingCall:
    """The arguments of a call that closes letters."""

    kind: AuditKind
    run_ids: tuple[str, ...]
    where: DeadLetterFilter
    since: Bound | None
    until: Bound | None
    reason: str | None
    max_letters: int
    idempotency_key: str | None
    payload: Mapping[str, Json] | None = None

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
    """Closes letters one by one, and keeps which ones it could not close."""

    close: Callable[[str, int], ClosedLetter]
    room: int
    closed: list[ClosedLetter] = field(default_factory=list)
    skipped: list[SkippedLetter] = field(default_factory=list)

    def all(self, run_ids: Iterable[str], *, alone: bool) -> None:
        """Close as many as there is room for; of one `alone`, raise why it cannot be closed."""
        for run_id in run_ids if len(self.closed) < self.room else ():
            try:
                self.closed.append(self.close(run_id, len(self.closed)))
            except (Refused, DeadLetterNotFound) as problem:
                if alone:
                    raise
                self.skipped.append(SkippedLetter(run_id, str(problem)))
            if len(self.closed) == self.room or len(self.skipped) == MAX_LETTERS_SKIPPED:
                return


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
    run = record.run
    current = run if run.started_at is not None or run.state is State.READY else None
    current = None if current and current.state in TERMINAL else current
    beside = next(iter(record.beside), current)
    if beside is not None:
        raise Refused(
            f"{record.task.id} has a run that is {beside.state} ({beside.id}); "
            "a dead letter that is named runs all the same.",
            argument="run_id",
            remedy=remedies.Inspect(record.task.id),
        )


def require_reason(reason: str | None) -> None:
    """Raise InvalidArgument where there is no reason."""
    if not (reason or "").strip():
        raise InvalidArgument(
            "reason", "it is missing", accepted="why, for the audit log", example="reason='the CRM is back'"
        )


OpenLetters = Mapping[str, frozenset[str]]
"""Runs with an open dead letter, by their task."""


def open_letters(store: Store, call: BulkCall, records: Sequence[TaskRecord]) -> OpenLetters:
    """Return the open dead letters of these tasks."""
    return store.dead_letters.open_runs(call.of_tenant, [record.task.id for record in records])


def with_letters(call: BulkCall, records: Sequence[TaskRecord], letters: OpenLetters) -> list[TaskRecord]:
    """Return the tasks that a filter means: a replay those whose last failure waits for one, a discard all."""
    if call.verb is BulkVerb.DISCARD:
        return [each for each in records if each.task.id in letters]
    return [each for each in records if letters.get(each.task.id, frozenset()) & _last_runs(each)]


def replayed_too_often(store: Store, call: BulkCall, records: Sequence[TaskRecord]) -> frozenset[str]:
    """Return the last runs that so many replays led to that only a call by id replays them again."""
    if call.task_ids:
        return frozenset()
    counted = store.dead_letters.replays({run_id for record in records for run_id in _last_runs(record)})
    return frozenset(run_id for run_id, count in counted.items() if count >= MAX_REPLAYS)


def letters_closed(
    records: Sequence[TaskRecord], letters: OpenLetters, now: datetime, *, dry_run: bool, by_filter: bool
) -> BulkResult:
    """Return what a discard does, or would do: a failed task without an open letter has it already."""
    outcomes = in_order([_letter_closed(each, letters) for each in records])
    return BulkResult(BulkVerb.DISCARD, outcomes, now, dry_run=dry_run, by_filter=by_filter)


def _letter_closed(record: TaskRecord, letters: OpenLetters) -> TaskOutcome:
    if record.task.id in letters:
        return TaskOutcome(record, Became.CHANGED)
    failed = [run for run in (record.run, record.last_run) if run is not None and run.state is State.FAILED]
    if any(run.attempt for run in failed):
        return TaskOutcome(record, Became.UNCHANGED)
    why = "left no dead letter: it failed with what it comes after" if failed else "has not failed"
    return TaskOutcome(record, Became.REFUSED, f"{record.task.id} {why}.")


def check_number(letters: OpenLetters) -> list[str]:
    """Return the runs whose letters one call discards. Raises InvalidArgument where they are too many."""
    run_ids = [run_id for of_task in letters.values() for run_id in sorted(of_task)]
    if len(run_ids) > MAX_LETTERS_CLOSED:
        raise InvalidArgument(
            "query",
            f"more than {MAX_LETTERS_CLOSED:,} dead letters match",
            accepted="a narrower filter: one call discards no more",
            example="action='webhook'",
        )
    return run_ids


def _last_runs(record: TaskRecord) -> set[str]:
    return {run.id for run in (record.run, record.last_run) if run is not None}
