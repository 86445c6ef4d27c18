"""The result that a change of many tasks would have: each part is tried in a transaction that is rolled back."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from duetime.scheduler.calls.bulk_change import (
    BatchWrite,
    Became,
    BulkDecision,
    BulkResult,
    BulkVerb,
    StoredBatch,
    TaskOutcome,
    replaced_times,
)
from duetime.scheduler.calls.bulk_parts import parts
from duetime.scheduler.errors import InvalidArgument, InvalidArguments, Refused
from duetime.scheduler.records import Change
from duetime.scheduler.rules.series.change_notes import note_in_bulk
from duetime.scheduler.service.bulk.bulk_call import PAUSE_BETWEEN_PARTS_S, BulkCall, in_order
from duetime.scheduler.store import Store
from duetime.scheduler.views import TaskRecord

MAX_TASKS_REHEARSED = 1_000
"""Tasks whose change is tried by a dry run, in parts."""

MAX_TASKS_TRIED_AT_ONCE = 20
"""Tasks of one part: trying it locks them as the change would, and on SQLite every other writer, for some 20 ms."""

MAX_RELATED_TASKS_TRIED = 100
"""Tasks of a part that cannot be tried apart from each other."""


def previewed_result(
    store: Store,
    call: BulkCall,
    records: Sequence[TaskRecord],
    decision: BulkDecision,
    now: datetime,
    *,
    via: str | None = None,
) -> BulkResult:
    """Return what a call would do: each part of its tasks is tried, unless they are too many for that."""
    outcomes, alone = list[TaskOutcome](), False
    for place, part in enumerate(_parts(store, call.of_tenant, records)):
        if len(part) > MAX_RELATED_TASKS_TRIED or len(records) > MAX_TASKS_REHEARSED:
            outcomes, alone = outcomes + [_would(record, decision) for record in part], True
            continue
        if place:
            time.sleep(PAUSE_BETWEEN_PARTS_S)
        outcomes += rehearsed(store, call, part, decision, now, via=via)
    by_id = {each.record.task.id: each for each in outcomes}
    outcomes = [by_id[record.task.id] for record in records]
    if decision.verb is not BulkVerb.MOVE:  # only a move shows what is to be
        outcomes = [_as_now(each, record) for each, record in zip(outcomes, records, strict=True)]
    until, by_filter = decision.paused_until, not call.task_ids
    found = BulkResult(decision.verb, in_order(outcomes), now, dry_run=True, by_filter=by_filter, paused_until=until)
    return replace(found, alone=alone)


def _parts(store: Store, tenant: str, records: Sequence[TaskRecord]) -> Iterator[list[TaskRecord]]:
    """Yield tasks in parts that can be tried one after the other; all of them where each is decided alone."""
    ids, by_id = [each.task.id for each in records], {each.task.id: each for each in records}
    apart = MAX_TASKS_TRIED_AT_ONCE < len(ids) <= MAX_TASKS_REHEARSED
    for part in parts(ids, store.batches.related(tenant, ids), MAX_TASKS_TRIED_AT_ONCE) if apart else [ids]:
        yield [by_id[task_id] for task_id in part]


def rehearsed(
    store: Store,
    call: BulkCall,
    records: Sequence[TaskRecord],
    decision: BulkDecision,
    now: datetime,
    *,
    via: str | None = None,
) -> list[TaskOutcome]:
    """Return what becomes of tasks in a transaction that is rolled back: as they would be, at their revisions now."""
    token, ids = replace(call, idempotency_key=None).new_token(), [each.task.id for each in records]
    batch = StoredBatch(call.verb, call.arguments_digest(), token, now, {}, {}, {}, tuple(ids), decision.chain)
    write = BatchWrite(batch, 0, now, call.by.acting(via), call.reason)
    done = {
        each.record.task.id: each for each in store.batches.change(call.of_tenant, ids, decision, write, dry_run=True)
    }
    gone = (TaskOutcome(each, Became.UNCHANGED) for each in records)
    return [_shown(each, done.get(each.task.id, left)) for each, left in zip(records, gone, strict=True)]


def _as_now(outcome: TaskOutcome, record: TaskRecord) -> TaskOutcome:
    return replace(outcome, record=record, was=outcome.was if outcome.side_run_at else None)


def _shown(record: TaskRecord, outcome: TaskOutcome) -> TaskOutcome:
    after, task = outcome.record, record.task
    shown = replace(after.task, revision=task.revision, updated_at=task.updated_at)
    return replace(outcome, record=replace(after, task=shown))


def _would(record: TaskRecord, decision: BulkDecision) -> TaskOutcome:
    try:
        change = decision.decide(record, None)
    except (Refused, InvalidArgument, InvalidArguments) as refused:
        return TaskOutcome(record, Became.REFUSED, str(refused))
    after = change.applied_to(record) if decision.verb is BulkVerb.MOVE else record
    if replace(change, kind=None) == Change(record.task, record.run):
        return TaskOutcome(record, Became.UNCHANGED)
    was, side_run_at = replaced_times(record, after, change)
    undo = decision.undo_of(change.applied_to(record))
    return TaskOutcome(after, Became.CHANGED, note_in_bulk(record, change), undo, was, side_run_at)
