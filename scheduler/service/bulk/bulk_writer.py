"""Writes a change of many tasks, some in each transaction, unless an earlier call has made it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from duetime.scheduler.calls.bulk_change import (
    BULK_KEY_KEPT,
    BULK_UNDO_WINDOW,
    MAX_RELATED_TASKS_AT_ONCE,
    MAX_TASKS_AT_ONCE,
    BatchWrite,
    Became,
    BulkDecision,
    BulkResult,
    BulkVerb,
    EqualCallAtOnce,
    StoredBatch,
    TaskOutcome,
)
from duetime.scheduler.calls.bulk_parts import parts
from duetime.scheduler.calls.partial_change import report_partial_change
from duetime.scheduler.rules import changes
from duetime.scheduler.service.bulk.bulk_call import (
    PAUSE_BETWEEN_PARTS_S,
    BulkCall,
    check_expected,
    in_order,
    with_undo,
)
from duetime.scheduler.service.bulk.bulk_targets import BulkTargets
from duetime.scheduler.service.bulk.stored_calls import entry_of, latest_of, repeated_of, stored_outcomes
from duetime.scheduler.service.change_notices import ChangeNotices
from duetime.scheduler.store import Store
from duetime.scheduler.task import State


class BulkWriter:
    """Changes the tasks that a call means, by a decision about each; a repeat finishes the call that it repeats."""

    def __init__(
        self,
        store: Store,
        targets: BulkTargets,
        notices: ChangeNotices,
    ) -> None:
        self._store = store
        self._targets = targets
        self._recall, self._on_change, self._via = notices.recall, notices.on_change, notices.via

    def change(self, call: BulkCall, decision: BulkDecision, now: datetime) -> BulkResult:
        """Change the tasks that a call means, unless it repeats an earlier one, or one of the same moment."""
        try:
            return self._once(call, decision, now)
        except EqualCallAtOnce:
            return self._once(call, decision, now)

    def _once(self, call: BulkCall, decision: BulkDecision, now: datetime) -> BulkResult:
        found = latest_of(self._store, call)
        earlier = repeated_of(self._store, call, found, now)
        new = StoredBatch(call.verb, call.arguments_digest(), call.new_token(), now, {}, {}, {}, chain=decision.chain)
        if earlier:
            again = self._again(call, decision, replace(new, token=earlier[0].token), earlier)
            return replace(again, left=earlier[0].left_out)
        meant = self._targets.meant(call, decision)
        check_expected(call, meant.records, partial(self._targets.others, call, meant.records))
        batch = replace(new, left=tuple(record.task.id for record in meant.records), left_out=meant.left)
        done = self._changed(call, decision, batch, seen=found[0].token if found else None)
        return replace(done, left=meant.left)

    def _again(
        self, call: BulkCall, decision: BulkDecision, batch: StoredBatch, earlier: Sequence[StoredBatch]
    ) -> BulkResult:
        """Return what the earlier call did, and do what it was cut off from."""
        now = batch.at
        done = stored_outcomes(self._store, call, earlier)
        left = tuple(task_id for task_id in earlier[0].left if all(task_id not in each.became for each in earlier))
        if left:
            rest = self._changed(call, decision, replace(batch, left=left), number=len(earlier), before=done)
            return replace(rest, repeated=True)
        ends = (each.record.task.paused_until for each in done if each.became is Became.CHANGED)
        paused_until = next(ends, None) if call.verb is BulkVerb.PAUSE else None
        return with_undo(BulkResult(call.verb, done, now, repeated=True, paused_until=paused_until), earlier)

    def _changed(
        self,
        call: BulkCall,
        decision: BulkDecision,
        batch: StoredBatch,
        *,
        number: int = 0,
        before: Sequence[TaskOutcome] = (),
        seen: str | None = None,
    ) -> BulkResult:
        """Change the tasks of a batch, some in each transaction, the last of which has the audit entry.

        The first transaction is the `number`th of its call.
        """
        task_ids, token, now, done = batch.left, batch.token, batch.at, list[TaskOutcome]()
        split = list(self._parts(call, task_ids))
        for place, part in enumerate(split):
            if place:
                time.sleep(PAUSE_BETWEEN_PARTS_S)
            known = (*before, *done)
            entry = partial(entry_of, call, token, self._via, known, chain=decision.chain)
            write = replace(self._write_of(call, batch, number + place), seen=seen)
            is_last = place == len(split) - 1
            with report_partial_change(known, token):
                changed = self._store.batches.change(
                    call.of_tenant, part, decision, write, entry=entry if is_last else None
                )
            notify(changed, self._recall, self._on_change)
            done += changed
        places = {task_id: place for place, task_id in enumerate(task_ids)}
        every = [*before, *sorted(done, key=lambda each: places[each.record.task.id])]
        refused = all(each.became is Became.REFUSED for each in every)
        undoable = any(each.undo for each in every) or (decision.chain is not None and not refused)
        until = now + BULK_UNDO_WINDOW if undoable else None
        result = BulkResult(call.verb, in_order(every), now, undo=token if undoable else None, undo_until=until)
        return replace(result, paused_until=decision.paused_until)

    def _write_of(self, call: BulkCall, batch: StoredBatch, number: int) -> BatchWrite:
        """Return how one transaction of a call is kept; the first one has the tasks of all."""
        kept = BULK_KEY_KEPT if call.idempotency_key else BULK_UNDO_WINDOW + changes.UNDO_GRACE
        batch = replace(batch, left=(), left_out=0) if number else batch
        acting, name = call.by.acting(self._via), call.repeat_name
        return BatchWrite(batch, number, batch.at + kept, acting, call.reason, repeat_name=name)

    def _parts(self, call: BulkCall, task_ids: Sequence[str]) -> Iterator[Sequence[str]]:
        """Yield the tasks of one transaction after the other; those that follow from one another share one."""
        if len(task_ids) <= MAX_TASKS_AT_ONCE:
            yield task_ids
            return
        for part in parts(task_ids, self._store.batches.related(call.of_tenant, task_ids), MAX_TASKS_AT_ONCE):
            for begin in range(0, len(part), MAX_RELATED_TASKS_AT_ONCE):
                yield part[begin : begin + MAX_RELATED_TASKS_AT_ONCE]


def notify(
    done: Sequence[TaskOutcome], recall: Callable[[Sequence[str]], None], on_change: Callable[[Sequence[str]], None]
) -> None:
    """Take what is to wait out of the queue, and say which tasks have changed; a run that is ready still stays."""
    changed = [each.record for each in done if each.became is Became.CHANGED]
    stays = [record for record in changed if record.run.state is State.READY and not record.task.paused]
    recall([record.run.id for record in changed if record not in stays])
    on_change([record.task.id for record in changed])
