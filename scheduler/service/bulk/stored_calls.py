"""Calls for many tasks as they are stored: what an earlier one did that this one repeats, and their audit entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.calls.bulk_change import (
    BULK_UNDO_WINDOW,
    Became,
    BulkResult,
    BulkVerb,
    StoredBatch,
    TaskOutcome,
    why_cancel_is_final,
)
from duetime.scheduler.chain.change import ChainChange
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.intake.idempotency import REPEAT_WINDOW
from duetime.scheduler.rules.changes import UNDO_GRACE
from duetime.scheduler.service.bulk.bulk_call import BulkCall, audit_detail, in_order
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskRecord

MAX_IDS_AUDITED: Final = 100


def earlier_of(store: Store, call: BulkCall, now: datetime) -> list[StoredBatch]:
    """Return what an earlier call did that this one repeats. Raises InvalidArgument for a key of another call."""
    return repeated_of(store, call, latest_of(store, call), now)


def latest_of(store: Store, call: BulkCall) -> list[StoredBatch]:
    """Return the transactions of the latest call that this one may repeat."""
    if call.repeat_name is not None:
        return store.batches.latest(call.of_tenant, call.repeat_name)
    if call.idempotency_key is None and call.verb is not BulkVerb.UNDO:
        return []
    return store.batches.stored(call.of_tenant, call.new_token())


def repeated_of(store: Store, call: BulkCall, found: list[StoredBatch], now: datetime) -> list[StoredBatch]:
    """Return the transactions that were found if this call repeats them. Raises as `earlier_of` does."""
    if call.repeat_name is not None:
        return found if _still_derived(store, call, found, now) else []
    if call.idempotency_key is None:
        return [each for each in found if now - each.at <= BULK_UNDO_WINDOW + UNDO_GRACE]
    if any(each.arguments_digest != call.arguments_digest() for each in found):
        raise InvalidArgument(
            "idempotency_key",
            "it names another call",
            accepted="a new key for a new call",
            example="idempotency_key='move-afternoon-2'",
        )
    return found


def _still_derived(store: Store, call: BulkCall, found: Sequence[StoredBatch], now: datetime) -> bool:
    """Whether a call is known by its arguments: for a minute, if it changed something and is not over.

    It is over once some of it was taken back, or its caller has changed one of its tasks in another way.
    """
    if not any(each.has_changed for each in found) or any(each.is_taken_back for each in found):
        return False
    is_recent = now - max(each.at for each in found) <= REPEAT_WINDOW
    return is_recent and not store.batches.is_changed_since(found, call.by.user)


def stored_outcomes(store: Store, call: BulkCall, earlier: Sequence[StoredBatch]) -> tuple[TaskOutcome, ...]:
    """Return what became of the tasks of transactions, in the order of their call."""
    of_task = {task_id: each for each in earlier for task_id in each.became}
    order = [task_id for task_id in earlier[0].left if task_id in of_task]
    records = store.batches.still(call.of_tenant, order)
    return tuple(of_task[record.task.id].outcome_of(record) for record in records)


def with_final(store: Store, call: BulkCall, result: BulkResult) -> BulkResult:
    """Return the result of an undo with the tasks of its cancel that no undo brings back, as refused ones."""
    found = [each for each in store.batches.stored(call.of_tenant, call.undo or "") if each.verb is BulkVerb.CANCEL]
    cancelled = (task_id for each in found for task_id, word in each.became.items() if word is Became.CHANGED)
    taken = {each.record.task.id for each in result.outcomes}
    left = store.batches.still(call.of_tenant, [task_id for task_id in cancelled if task_id not in taken])
    stays = [TaskOutcome(each, Became.REFUSED, why_cancel_is_final(each)) for each in left if _is_cancelled(each)]
    return replace(result, outcomes=in_order([*result.outcomes, *stays]))


def _is_cancelled(record: TaskRecord) -> bool:
    return record.run.state is State.CANCELLED or record.run.cancel_requested


def entry_of(
    call: BulkCall,
    token: str,
    via: str | None,
    before: Sequence[TaskOutcome],
    done: Sequence[TaskOutcome],
    *,
    chain: ChainChange | None = None,
) -> AuditEntry | None:
    """Return the entry of the audit log for all transactions of a call, of which `done` is the last.

    None where no task was changed, nor a chain whose open steps refused it.
    """
    every = [*before, *done]
    counted = {word.value: sum(each.became is word for each in every) for word in Became}
    refused = bool(every) and all(each.became is Became.REFUSED for each in every)
    if not counted[Became.CHANGED] and (chain is None or refused):
        return None
    ids = [each.record.task.id for each in every if each.became is Became.CHANGED][:MAX_IDS_AUDITED]
    detail: dict[str, Any] = {
        "change": call.audit_verb or call.verb.value,
        **counted,
        "tasks": ids,
        **audit_detail(call),
    }
    detail |= {"chain": chain.chain_id, **chain.audited()} if chain else {}
    kind, of_tenant = AuditKind.TASKS_CHANGED, call.of_tenant
    return AuditEntry.by(call.by.with_via(via), kind, token, tenant=of_tenant, reason=call.reason, detail=detail)
