"""Takes a change of many tasks back, once: a repeat says what the first undo did."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from duetime.scheduler.audit.entry import AuditEntry
from duetime.scheduler.calls.bulk_change import (
    BULK_KEY_KEPT,
    BULK_UNDO_WINDOW,
    TAKEN_BACK_ALREADY,
    BatchWrite,
    BulkResult,
    BulkVerb,
    StoredBatch,
    TaskOutcome,
    undid_nothing,
)
from duetime.scheduler.errors import Refused
from duetime.scheduler.intake.changes.bulk import undo_decision
from duetime.scheduler.rules import changes
from duetime.scheduler.service.bulk.bulk_call import PAUSE_BETWEEN_PARTS_S, BulkCall, in_order
from duetime.scheduler.service.bulk.bulk_writer import notify
from duetime.scheduler.service.bulk.stored_calls import earlier_of, entry_of, stored_outcomes
from duetime.scheduler.service.change_notices import ChangeNotices
from duetime.scheduler.store import Store


class BulkUndo:
    """Takes calls back that changed many tasks, transaction by transaction."""

    def __init__(
        self,
        store: Store,
        notices: ChangeNotices,
    ) -> None:
        self._store = store
        self._recall, self._on_change, self._via = notices.recall, notices.on_change, notices.via

    def taken_back(self, call: BulkCall, now: datetime) -> BulkResult:
        """Take a call back, transaction by transaction. Raises Refused where nothing of it can be, which stays so.

        A repeat says what the first undo did, and does what that was cut off from.
        """
        found, known = self._store.batches.stored(call.of_tenant, call.undo or ""), earlier_of(self._store, call, now)
        left = [n for n, each in enumerate(found) if each.is_undoable]
        before = [each for n, each in enumerate(known) if n not in left]
        if left or not before:
            _check_undoable(found, now)
        done = list(stored_outcomes(self._store, call, before)) if before else []
        new, token, part = list[TaskOutcome](), call.new_token(), bool(before) or len(left) > 1
        if len(left) > 1 and not before:
            self._check_takes_back(call, [found[number] for number in left], now)
        order = tuple(dict.fromkeys(task_id for each in found for task_id in each.left))
        for number in left:
            if number != left[0]:
                time.sleep(PAUSE_BETWEEN_PARTS_S)
            all_of_it = order if number == left[0] and not before else ()
            batch = StoredBatch(BulkVerb.UNDO, call.arguments_digest(), token, now, {}, {}, {}, all_of_it)
            entry = (
                partial(entry_of, call, found[number].token, self._via, (*done, *new)) if number == left[-1] else None
            )
            ids = [task_id for task_id in order if task_id in found[number].undo]  # JSON keeps no order in PostgreSQL
            write = replace(self._write_of(call, batch, number), is_part=part)
            new += self._undone(call, ids, write, found[number], entry)
        if left and not part and undid_nothing(new, found[left[0]]):
            raise _took_nothing_back(new)
        notify(new, self._recall, self._on_change)
        return BulkResult(BulkVerb.UNDO, in_order([*done, *new]), now, repeated=bool(before))

    def _check_takes_back(self, call: BulkCall, batches: Sequence[StoredBatch], now: datetime) -> None:
        """Raise Refused where each task of several transactions refuses the undo; a discard is not tried."""
        refused: list[TaskOutcome] = []
        for batch in batches:
            if batch.verb is BulkVerb.DISCARD or batch.chain:
                return
            decision = undo_decision(batch.undo, now, BULK_UNDO_WINDOW)
            rehearsed = replace(batch, at=now)  # kept until now, so no row of it
            write = BatchWrite(rehearsed, 0, now, call.by.acting(self._via), call.reason)
            tried = self._store.batches.change(call.of_tenant, list(batch.undo), decision, write, dry_run=True)
            if not undid_nothing(tried, batch):
                return
            refused += tried
        raise _took_nothing_back(refused)

    def _undone(
        self,
        call: BulkCall,
        task_ids: Sequence[str],
        write: BatchWrite,
        batch: StoredBatch,
        entry: Callable[[Sequence[TaskOutcome]], AuditEntry | None] | None,
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
        kept = BULK_KEY_KEPT if call.idempotency_key else BULK_UNDO_WINDOW + changes.UNDO_GRACE
        return BatchWrite(batch, number, batch.at + kept, call.by.acting(self._via), call.reason)


def _check_undoable(found: Sequence[StoredBatch], now: datetime) -> None:
    """Raise Refused where nothing of a call can be taken back any more."""
    if not found or now - found[0].at > BULK_UNDO_WINDOW + changes.UNDO_GRACE:
        raise Refused("no change of many tasks has this token, or it is older than 10 minutes.", argument="undo")
    if not any(each.is_undoable for each in found):
        raise Refused(TAKEN_BACK_ALREADY, argument="undo")


def _took_nothing_back(done: Sequence[TaskOutcome]) -> Refused:
    """Return the refusal of an undo that changed nothing, with the reason of the first task."""
    why = next((each.why for each in done if each.why), "there is nothing left of it.")
    why = why.removeprefix("undo: ")
    several = f", as each of {len(done)} tasks refuses it; the first" if len(done) > 1 else ""
    return Refused(f"nothing was taken back{several}: {why}", argument="undo")
