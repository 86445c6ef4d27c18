"""Dead letters of the tasks that a call for many tasks means: those that are open, and what a discard does to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from duetime.scheduler.calls.bulk_change import Became, BulkResult, BulkVerb, TaskOutcome
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.history.dead_letters import MAX_REPLAYS
from duetime.scheduler.service.bulk.bulk_call import BulkCall, in_order
from duetime.scheduler.service.letters.letter_call import MAX_LETTERS_CLOSED, USUAL_LETTERS_COUNT
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskRecord

OpenLetters = Mapping[str, frozenset[str]]
"""Runs with an open dead letter, by their task."""


def open_letters(store: Store, call: BulkCall, records: Sequence[TaskRecord]) -> OpenLetters:
    """Return the open dead letters of these tasks."""
    return store.dead_letters.open_runs(call.of_tenant, [record.task.id for record in records])


@dataclass(frozen=True, slots=True)
class MeantTasks:
    """The tasks of a call. A replay by filter leaves its `spent` runs alone, and `left` tasks to another call."""

    records: Sequence[TaskRecord]
    spent: frozenset[str] | None = None
    left: int = 0


def check_most(call: BulkCall) -> None:
    """Refuse a maximum that is out of range, or of another change than a replay. Raises InvalidArgument."""
    if call.max_letters is None or (call.verb is BulkVerb.REPLAY and 1 <= call.max_letters <= MAX_LETTERS_CLOSED):
        return
    accepted = f"of a replay, 1 to {MAX_LETTERS_CLOSED:,}"
    problem, most = ("out of range", "100") if call.verb is BulkVerb.REPLAY else ("only a replay takes it", "null")
    raise InvalidArgument("max_letters", problem, accepted=accepted, example=f"max_letters={most}")


def tasks_to_replay(store: Store, call: BulkCall, records: Sequence[TaskRecord]) -> MeantTasks:
    """Return the tasks of a replay: of a filter those that failed first, with all that were replayed too often."""
    spent = None if call.task_ids else _replayed_too_often(store, records)
    most = call.max_letters or (len(records) if call.task_ids else USUAL_LETTERS_COUNT)
    held = {each.task.id for each in records if (each.failed_run or each.run).id in (spent or ())}
    others = sorted((each for each in records if each.task.id not in held), key=_failed_at)
    left = {each.task.id for each in others[most:]}
    return MeantTasks([each for each in records if each.task.id not in left], spent, len(left))


def _failed_at(record: TaskRecord) -> tuple[datetime, str]:
    run = record.failed_run or record.run
    return run.ended_at or run.scheduled_for, run.id


def _replayed_too_often(store: Store, records: Sequence[TaskRecord]) -> frozenset[str]:
    """Return the runs that so many replays led to that only a call by id replays them again."""
    counted = store.dead_letters.replays({run_id for record in records for run_id in _runs_known(record)})
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
    why = "left no dead letter: a task before it failed" if failed else "has not failed"
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


def _runs_known(record: TaskRecord) -> set[str]:
    return {run.id for run in (record.run, record.last_run, record.failed_run) if run is not None}
