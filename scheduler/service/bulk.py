"""The part of the service that changes many tasks by one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Unpack

from duetime.scheduler.bulk.change import (
    BULK_KEY_KEPT,
    BULK_UNDO_WINDOW,
    MAX_TASKS_AT_ONCE,
    MAX_TASKS_CHANGED,
    BatchWrite,
    Became,
    BulkDecision,
    BulkResult,
    BulkVerb,
    BulkWord,
    StoredBatch,
    TaskOutcome,
)
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.history.dead_letters import ClosedLetter
from duetime.scheduler.intake.bounds import Bounds
from duetime.scheduler.intake.changes.bulk import decision_of
from duetime.scheduler.rules import changes
from duetime.scheduler.rules.states import OPEN
from duetime.scheduler.service.bulk_call import (
    EVERYTHING,
    BulkArguments,
    BulkCall,
    check_expected,
    in_order,
    is_meant,
    previewed_result,
    refuse_dry_run,
    with_undo,
)
from duetime.scheduler.service.bulk_undo import BulkUndoService
from duetime.scheduler.service.letter_call import (
    check_number,
    letters_closed,
    open_letters,
    replayed_too_often,
    require_reason,
    undo_tokens,
    with_letters,
)
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskFilter, TaskRecord

_FAILED = (State.FAILED,)
_OPEN = tuple(state for state in State if state in OPEN)


class BulkService(BulkUndoService):
    """Changes many tasks: those that are named, or those of a filter once the caller has said how many these are."""

    def change_many(
        self,
        change: BulkWord,
        task_ids: Sequence[str] = (),
        *,
        where: TaskFilter = EVERYTHING,
        **arguments: Unpack[BulkArguments],
    ) -> BulkResult:
        """Cancel, pause, resume, move or replay many tasks, discard their dead letters, or `undo` a call by its token.

        Without `task_ids` it means the open tasks of the filter. A replay or a discard means those that failed and
        whose dead letters are open. It changes nothing unless `expect` is how many of them there are: else the result
        is that of a `dry_run`. A move is `to` a time, a day (each task keeps its time of day) or so much later than
        each was (`1 day later`). A pause may end at the time `to`. Words in `after` and `before` mean what is to come.
        An operator may undo in another `tenant`.

        Up to 1,000 tasks are changed in one transaction: all or none. Tasks that refuse the change stay as they are,
        and the result says why. More than 10,000 are refused.

        Raises InvalidArgument(s), TaskNotFound for an id that there is not, and Refused.
        """
        now, dry_run = self._store.now(), arguments.get("dry_run", False)
        after, before = arguments.get("after"), arguments.get("before")
        found = Bounds.of(None, now, self._zone, self._holidays, to_come=True, after=after, before=before)
        call = BulkCall.of(change, task_ids, replace(where, **found.instants), arguments)
        if call.verb is BulkVerb.UNDO:
            refuse_dry_run(dry_run)
            return self._taken_back(call, now)
        return replace(self._apply(call, now, dry_run=dry_run), **found.instants)

    def _apply(self, call: BulkCall, now: datetime, *, dry_run: bool) -> BulkResult:
        """Do what a call asks, or say what that would be."""
        by_filter = not call.task_ids
        if call.verb is BulkVerb.DISCARD:
            return self._discarded(call, now, dry_run=dry_run or (by_filter and call.expect is None))
        spent = replayed_too_often(self._store, call, self._meant(call)) if call.verb is BulkVerb.REPLAY else ()
        decision = self._decided_many(call, decision_of(call.verb, self._planner, now, call.to, spent=spent), now)
        if dry_run or (by_filter and call.expect is None and not self._earlier(call, now)):
            return previewed_result(self._store, call, self._meant(call, decision), decision, now, via=self._via)
        return self._change_named(call, decision, now)

    def _discarded(self, call: BulkCall, now: datetime, *, dry_run: bool) -> BulkResult:
        """Close the dead letters of the tasks that a call means; the tasks stay as they are."""
        earlier = [] if dry_run else self._earlier(call, now)
        if earlier:
            return with_undo(BulkResult(call.verb, self._stored_outcomes(call, earlier), now, repeated=True), earlier)
        records = self._meant(call)
        letters = open_letters(self._store, call, records)
        run_ids = check_number(letters)
        if not dry_run:
            check_expected(call, records)
            require_reason(call.reason)
        result = letters_closed(records, letters, now, dry_run=dry_run, by_filter=not call.task_ids)
        if dry_run:
            return result
        done = self.discard(run_ids, reason=call.reason, max_letters=len(run_ids), by=call.by) if run_ids else None
        return with_undo(result, [self._remember(call, result, done.closed if done else ())])

    def _remember(self, call: BulkCall, result: BulkResult, closed: Sequence[ClosedLetter]) -> StoredBatch:
        """Store what became of the tasks, so that a repeat of the call is answered with it, and it can be undone."""
        now, keep = result.now, BULK_KEY_KEPT if call.idempotency_key else BULK_UNDO_WINDOW + changes.UNDO_GRACE
        became = {each.record.task.id: each.became for each in result.outcomes}
        undo, why = undo_tokens(closed), {each.record.task.id: each.why for each in result.outcomes if each.why}
        batch = StoredBatch(call.verb, call.asked(), call.token(), now, became, why, undo, tuple(became))
        outdated = now if call.idempotency_key else now + keep
        self._store.batches.remember(
            call.of_tenant, BatchWrite(batch, 0, now + keep, outdated, call.by.acting(self._via), call.reason)
        )
        return batch

    def _change_named(self, call: BulkCall, decision: BulkDecision, now: datetime) -> BulkResult:
        """Change the tasks that a call means, unless it repeats an earlier one."""
        earlier = self._earlier(call, now)
        if earlier:
            return self._again(call, decision, earlier, now)
        records = self._meant(call, decision)
        check_expected(call, records)
        return self._changed(call, decision, [record.task.id for record in records], now)

    def _meant(self, call: BulkCall, decision: BulkDecision | None = None) -> list[TaskRecord]:
        """Return the tasks of a call. Raises InvalidArgument where they are more than one call changes."""
        if call.task_ids:
            return self._store.batches.named(call.of_tenant, self._ids_meant(call))
        of_letters = call.verb in {BulkVerb.REPLAY, BulkVerb.DISCARD}
        where = replace(call.where, states=call.where.states or (_FAILED if of_letters else _OPEN))
        found = self._store.batches.matching(call.of_tenant, where, MAX_TASKS_CHANGED + 1)
        if len(found) > MAX_TASKS_CHANGED:
            raise InvalidArgument(
                "query",
                f"more than {MAX_TASKS_CHANGED:,} tasks match",
                accepted="a narrower filter: one call changes no more",
                example="before='tomorrow'",
            )
        if of_letters:
            return with_letters(call, found, open_letters(self._store, call, found))
        return [each for each in found if is_meant(each.task, call.verb, decision)]

    def _decided_many(self, _call: BulkCall, decision: BulkDecision, _now: datetime) -> BulkDecision:
        return decision

    def _ids_meant(self, call: BulkCall) -> Sequence[str]:
        return call.task_ids

    def _again(
        self, call: BulkCall, decision: BulkDecision, earlier: Sequence[StoredBatch], now: datetime
    ) -> BulkResult:
        """Return what the earlier call did, and do what it was cut off from."""
        done = self._stored_outcomes(call, earlier)
        left = [task_id for task_id in earlier[0].left if all(task_id not in each.became for each in earlier)]
        if left:
            rest = self._changed(call, decision, left, now, number=len(earlier), before=done)
            return replace(rest, repeated=True)
        ends = (each.record.task.paused_until for each in done if each.became is Became.CHANGED)
        paused_until = next(ends, None) if call.verb is BulkVerb.PAUSE else None
        return with_undo(BulkResult(call.verb, done, now, repeated=True, paused_until=paused_until), earlier)

    def _changed(
        self,
        call: BulkCall,
        decision: BulkDecision,
        task_ids: Sequence[str],
        now: datetime,
        *,
        number: int = 0,
        before: Sequence[TaskOutcome] = (),
    ) -> BulkResult:
        """Change the tasks, `MAX_TASKS_AT_ONCE` in a transaction, the last of which has the audit entry."""
        token, done = call.token(), list(before)
        keep = BULK_KEY_KEPT if call.idempotency_key else BULK_UNDO_WINDOW + changes.UNDO_GRACE
        batch = StoredBatch(call.verb, call.asked(), token, now, {}, {}, {}, tuple(task_ids), decision.chain)
        parts = [task_ids[at : at + MAX_TASKS_AT_ONCE] for at in range(0, len(task_ids), MAX_TASKS_AT_ONCE)]
        for place, part in enumerate(parts):
            entry = (
                partial(self._entry_of, call, token, tuple(done), chain=decision.chain)
                if place == len(parts) - 1
                else None
            )
            write = BatchWrite(
                replace(batch, left=batch.left if not number + place else ()),
                number + place,
                now + keep,
                now if call.idempotency_key else now + keep,
                call.by.acting(self._via),
                call.reason,
            )
            done += self._store.batches.change(call.of_tenant, part, decision, write, entry=entry)
            self._tell(done[-len(part) :])
        refused = all(each.became is Became.REFUSED for each in done)
        undoable = any(each.undo for each in done) or (decision.chain is not None and not refused)
        until = now + BULK_UNDO_WINDOW if undoable else None
        result = BulkResult(call.verb, in_order(done), now, undo=token if undoable else None, undo_until=until)
        return replace(result, paused_until=decision.paused_until)
