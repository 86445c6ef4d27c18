"""The part of the service that changes many tasks by one call, and takes all of it back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Unpack

from duetime.scheduler.audit.entry import AuditEntry, AuditKind
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
from duetime.scheduler.chain.change import ChainChange
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.history.dead_letters import ClosedLetter
from duetime.scheduler.intake.bounds import Bounds
from duetime.scheduler.intake.changes.bulk import decision_of, undo_decision
from duetime.scheduler.intake.idempotency import REPEAT_WINDOW
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
    told,
    with_undo,
)
from duetime.scheduler.service.changes import ChangeService
from duetime.scheduler.service.failed_tasks import (
    check_number,
    letters_closed,
    open_letters,
    opened_again,
    replayed_too_often,
    with_letters,
)
from duetime.scheduler.service.letter_call import require_reason, undo_tokens
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskFilter, TaskRecord

MAX_IDS_AUDITED = 100
_FAILED = (State.FAILED,)
_OPEN = tuple(state for state in State if state in OPEN)


class BulkService(ChangeService):
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
        undo = undo_tokens(closed)
        batch = StoredBatch(call.verb, call.asked(), call.token(), now, became, {}, undo, tuple(became))
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

    def _earlier(self, call: BulkCall, now: datetime) -> list[StoredBatch]:
        """Return what an earlier call did that this one repeats. Raises InvalidArgument for a key of another call."""
        if call.idempotency_key is None and call.raw is None:
            return []
        found = self._store.batches.stored(call.of_tenant, call.token())
        if call.idempotency_key is None:  # by its arguments alone: within a minute, unless it was taken back
            return [each for each in found if now - each.at <= REPEAT_WINDOW and each.is_undoable]
        if any(each.asked != call.asked() for each in found):
            raise InvalidArgument(
                "idempotency_key",
                "it names another call",
                accepted="a new key for a new call",
                example="idempotency_key='move-afternoon-2'",
            )
        return found

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

    def _stored_outcomes(self, call: BulkCall, earlier: Sequence[StoredBatch]) -> tuple[TaskOutcome, ...]:
        of_task = {task_id: each for each in earlier for task_id in each.became}
        order = [task_id for task_id in earlier[0].left if task_id in of_task]
        records = self._store.batches.still(call.of_tenant, order)
        return tuple(of_task[record.task.id].outcome_of(record) for record in records)

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

    def _taken_back(self, call: BulkCall, now: datetime) -> BulkResult:
        """Take a call back, transaction by transaction. Raises Refused where nothing of it can be."""
        found = self._store.batches.stored(call.of_tenant, call.undo or "")
        if not found or now - found[0].at > BULK_UNDO_WINDOW + changes.UNDO_GRACE:
            raise Refused("no change of many tasks has this token, or it is older than 10 minutes.", argument="undo")
        tokens = {task_id: token for each in found for task_id, token in each.undo.items()}
        if not any(each.is_undoable for each in found):
            raise Refused("this change was taken back already.", argument="undo")
        if found[0].verb is BulkVerb.DISCARD:
            return self._opened_again(call, found, now)
        decision = undo_decision(tokens, now, BULK_UNDO_WINDOW)
        done: list[TaskOutcome] = []
        for number, each in enumerate(found):
            last = number == len(found) - 1
            acting = call.by.acting(self._via)
            write = BatchWrite(replace(each, became={}), number, now, now, acting, call.reason)
            entry = partial(self._entry_of, call, each.token, tuple(done)) if last else None
            order = dict.fromkeys((*found[0].left, *each.left))  # JSON keeps no order in PostgreSQL
            ids = [task_id for task_id in order if task_id in each.undo]
            done += self._store.batches.change(call.of_tenant, ids, decision, write, entry=entry, takes_back=each)
        self._tell(done)
        return BulkResult(BulkVerb.UNDO, in_order(done), now)

    def _opened_again(self, call: BulkCall, found: Sequence[StoredBatch], now: datetime) -> BulkResult:
        """Open the letters again that a discard closed; the tasks stay as they ended."""
        done: list[TaskOutcome] = []
        for number, batch in enumerate(found):
            ids = [task_id for task_id in batch.left if task_id in batch.undo]
            records = self._store.batches.still(call.of_tenant, ids)
            entry = self._entry_of(call, batch.token, (), [opened_again(record) for record in records])
            why = self._store.batches.reopen(call.of_tenant, batch, number, entry)
            done += [opened_again(record, why.get(record.task.id)) for record in records]
        return BulkResult(BulkVerb.UNDO, in_order(done), now)
