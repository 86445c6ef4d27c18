"""The part of the service that takes a change of many tasks back, once: a repeat says what the first undo did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.bulk.change import (
    BULK_KEY_KEPT,
    BULK_UNDO_WINDOW,
    BatchWrite,
    Became,
    BulkResult,
    BulkVerb,
    StoredBatch,
    TaskOutcome,
)
from duetime.scheduler.chain.change import ChainChange
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.intake.changes.bulk import undo_decision
from duetime.scheduler.intake.idempotency import REPEAT_WINDOW
from duetime.scheduler.rules import changes
from duetime.scheduler.service.bulk_call import BulkCall, in_order, told
from duetime.scheduler.service.changes import ChangeService
from duetime.scheduler.task import State

MAX_IDS_AUDITED = 100


class BulkUndoService(ChangeService):
    """Takes calls back that changed many tasks, and finds what an earlier call did."""

    def _taken_back(self, call: BulkCall, now: datetime) -> BulkResult:
        """Take a call back, transaction by transaction. Raises Refused where nothing of it can be.

        A repeat says what the first undo did, and does what that was cut off from. Without a key of its own it is no
        repeat where the same change was made, and so can be taken back, again.
        """
        found, known = self._store.batches.stored(call.of_tenant, call.undo or ""), self._earlier(call, now)
        is_keyed = call.idempotency_key is not None
        left = [n for n, each in enumerate(found) if each.is_undoable and not (is_keyed and n < len(known))]
        before = [each for n, each in enumerate(known) if n not in left]
        if left or not before:
            _check_undoable(found, now)
        done = list(self._stored_outcomes(call, before)) if before else []
        new, token = list[TaskOutcome](), call.token()
        order = tuple(dict.fromkeys(task_id for each in found for task_id in each.left))
        for number in left:
            batch = StoredBatch(BulkVerb.UNDO, call.asked(), token, now, {}, {}, {}, () if number else order)
            entry = partial(self._entry_of, call, found[number].token, (*done, *new)) if number == left[-1] else None
            ids = [task_id for task_id in order if task_id in found[number].undo]  # JSON keeps no order in PostgreSQL
            new += self._undone(call, ids, self._write_of(call, batch, number), found[number], entry)
        self._tell(new)
        return BulkResult(BulkVerb.UNDO, in_order([*done, *new]), now, repeated=bool(before))

    def _undone(
        self,
        call: BulkCall,
        task_ids: Sequence[str],
        write: BatchWrite,
        batch: StoredBatch,
        entry: Callable[[Sequence[TaskOutcome]], AuditEntry] | None,
    ) -> list[TaskOutcome]:
        """Take back one transaction of a call."""
        given: dict[str, Any] = {"entry": entry, "takes_back": batch}
        if batch.verb is BulkVerb.DISCARD:
            return self._store.batches.reopen(call.of_tenant, task_ids, write, **given)
        decision = undo_decision(batch.undo, write.batch.at, BULK_UNDO_WINDOW)
        of_chain = list(batch.became) if batch.chain else []  # whose steps had all that it was to give them
        return self._store.batches.change(call.of_tenant, task_ids or of_chain, decision, write, **given)

    def _write_of(self, call: BulkCall, batch: StoredBatch, number: int) -> BatchWrite:
        """Return how a transaction of an undo is kept: for as long as a repeat of the call is known by it."""
        now, is_keyed = batch.at, call.idempotency_key is not None
        kept = BULK_KEY_KEPT if is_keyed else REPEAT_WINDOW if call.raw is not None else now - now
        acting = call.by.acting(self._via)
        return BatchWrite(batch, number, now + kept, now if is_keyed else now + kept, acting, call.reason)

    def _earlier(self, call: BulkCall, now: datetime) -> list[StoredBatch]:
        """Return what an earlier call did that this one repeats. Raises InvalidArgument for a key of another call."""
        if call.idempotency_key is None and call.raw is None:
            return []
        found = self._store.batches.stored(call.of_tenant, call.token())
        if call.idempotency_key is None:  # by its arguments alone: within a minute, unless it was taken back
            stands = [each for each in found if each.is_undoable or each.verb is BulkVerb.UNDO]
            return [each for each in stands if now - each.at <= REPEAT_WINDOW]
        if any(each.asked != call.asked() for each in found):
            raise InvalidArgument(
                "idempotency_key",
                "it names another call",
                accepted="a new key for a new call",
                example="idempotency_key='move-afternoon-2'",
            )
        return found

    def _stored_outcomes(self, call: BulkCall, earlier: Sequence[StoredBatch]) -> tuple[TaskOutcome, ...]:
        """Return what became of the tasks of transactions, in the order of their call."""
        of_task = {task_id: each for each in earlier for task_id in each.became}
        order = [task_id for task_id in earlier[0].left if task_id in of_task]
        records = self._store.batches.still(call.of_tenant, order)
        return tuple(of_task[record.task.id].outcome_of(record) for record in records)

    def _tell(self, done: Sequence[TaskOutcome]) -> None:
        """Take what is to wait out of the queue, and say which tasks have changed; a run that is ready still stays."""
        changed = [each.record for each in done if each.became is Became.CHANGED]
        stays = [record for record in changed if record.run.state is State.READY and not record.task.paused]
        self._recall([record.run.id for record in changed if record not in stays])
        self._on_change([record.task.id for record in changed])

    def _entry_of(
        self,
        call: BulkCall,
        token: str,
        before: Sequence[TaskOutcome],
        done: Sequence[TaskOutcome],
        *,
        chain: ChainChange | None = None,
    ) -> AuditEntry:
        every = [*before, *done]
        counted = {word.value: sum(each.became is word for each in every) for word in Became}
        ids = [each.record.task.id for each in every if each.became is Became.CHANGED][:MAX_IDS_AUDITED]
        said: dict[str, Any] = {"change": call.said or call.verb.value, **counted, "tasks": ids, **told(call)}
        said |= {"chain": chain.chain_id, **chain.told()} if chain else {}
        who = call.by if call.by.via else replace(call.by, via=self._via)
        kind, of_tenant = AuditKind.TASKS_CHANGED, call.of_tenant
        return AuditEntry.by(who, kind, token, tenant=of_tenant, reason=call.reason, detail=said)


def _check_undoable(found: Sequence[StoredBatch], now: datetime) -> None:
    """Raise Refused where nothing of a call can be taken back any more."""
    if not found or now - found[0].at > BULK_UNDO_WINDOW + changes.UNDO_GRACE:
        raise Refused("no change of many tasks has this token, or it is older than 10 minutes.", argument="undo")
    if not any(each.is_undoable for each in found):
        raise Refused("this change was taken back already.", argument="undo")
