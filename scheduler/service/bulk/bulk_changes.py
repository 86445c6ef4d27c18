"""Changes many tasks by one call: cancels, pauses, resumes, moves, replays or discards them, and takes that back."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Unpack

from duetime.scheduler.calls.bulk_change import (
    BULK_KEY_KEPT,
    BULK_UNDO_WINDOW,
    BatchWrite,
    BulkDecision,
    BulkResult,
    BulkVerb,
    BulkWord,
    StoredBatch,
)
from duetime.scheduler.history.dead_letters import ClosedLetter
from duetime.scheduler.intake.bounds import Bounds
from duetime.scheduler.intake.changes.bulk import decision_of
from duetime.scheduler.intake.changes.chain_notes import with_generation_notes
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.rules import changes
from duetime.scheduler.rules.time import zones
from duetime.scheduler.service.bulk.bulk_call import (
    ALL_TASKS,
    BulkArguments,
    BulkCall,
    check_expected,
    refuse_dry_run,
    with_undo,
)
from duetime.scheduler.service.bulk.bulk_letters import check_most, check_number, letters_closed, open_letters
from duetime.scheduler.service.bulk.bulk_preview import previewed_result
from duetime.scheduler.service.bulk.bulk_targets import BulkTargets
from duetime.scheduler.service.bulk.bulk_undo import BulkUndo
from duetime.scheduler.service.bulk.bulk_writer import BulkWriter
from duetime.scheduler.service.bulk.stored_calls import earlier_of, stored_outcomes, with_final
from duetime.scheduler.service.letters.dead_letters import DeadLetterService
from duetime.scheduler.service.letters.letter_call import require_reason, undo_tokens
from duetime.scheduler.store import Store
from duetime.scheduler.views import TaskFilter


class BulkService:
    """Changes many tasks: those that are named, or those of a filter once the caller has said how many these are."""

    def __init__(
        self,
        store: Store,
        planner: Planner,
        *,
        targets: BulkTargets,
        writer: BulkWriter,
        undo: BulkUndo,
        letters: DeadLetterService,
        via: str | None,
    ) -> None:
        self._store = store
        self._planner = planner
        self._targets = targets
        self._writer = writer
        self._undo = undo
        self._letters = letters
        self._via = via

    def change(
        self,
        change: BulkWord,
        task_ids: Sequence[str] = (),
        *,
        where: TaskFilter = ALL_TASKS,
        **arguments: Unpack[BulkArguments],
    ) -> BulkResult:
        """Cancel, pause, resume, move or replay many tasks, discard their dead letters, or `undo` a call by its token.

        Without `task_ids` it means the open tasks of the filter. A replay or a discard means those that failed and
        whose dead letters are open; a replay the oldest 100 of them, or `max_letters`. It changes nothing unless
        `expect` is how many of them there are: else the result is that of a `dry_run`. A move is `to` a time, a day
        (each task keeps its time of day) or so much later than each was (`1 day later`). A pause may end at the time
        `to`. Words in `after` and `before` mean what is to come. An operator may undo in another `tenant`.

        Up to 50 tasks are changed in one transaction: all or none. More make several, of which a repeat of the call
        finishes what was cut off. Tasks that follow from one another share one, up to 1,000. Tasks that refuse the
        change stay as they are, and the result says why. More than 10,000 are refused.

        Raises InvalidArgument(s), TaskNotFound for an id that there is not, and Refused.
        """
        now, dry_run = self._store.now(), arguments.get("dry_run", False)
        call, found = self._read(change, task_ids, where, arguments, now)
        if call.verb is BulkVerb.UNDO:
            refuse_dry_run(dry_run)
            return with_final(self._store, call, self._undo.taken_back(call, now))
        zone = self._planner.zone or "UTC"
        return replace(self._apply(call, now, dry_run=dry_run), zone=zone, **found.instants)

    def check(
        self,
        change: BulkWord,
        task_ids: Sequence[str] = (),
        *,
        where: TaskFilter = ALL_TASKS,
        **arguments: Unpack[BulkArguments],
    ) -> None:
        """Raise what is wrong with the arguments of a change, as `change` does, without a look at any task."""
        now = self._store.now()
        call, _ = self._read(change, task_ids, where, arguments, now)
        if call.verb not in {BulkVerb.UNDO, BulkVerb.DISCARD}:
            self._decision(call, now)

    def _read(
        self, change: BulkWord, task_ids: Sequence[str], where: TaskFilter, arguments: BulkArguments, now: datetime
    ) -> tuple[BulkCall, Bounds]:
        """Return a call with its times as instants, and these."""
        after, before = arguments.get("after"), arguments.get("before")
        found = Bounds.of(
            None, now, self._planner.zone, self._planner.holidays, to_come=True, after=after, before=before
        )
        call = BulkCall.of(change, task_ids, replace(where, **found.instants), arguments)
        check_most(call)
        return call, found

    def _decision(self, call: BulkCall, now: datetime, spent: Collection[str] | None = None) -> BulkDecision:
        zone = call.timezone and zones.find(call.timezone).key
        return decision_of(call.verb, self._planner, now, call.to, spent=spent, zone=zone)

    def _apply(self, call: BulkCall, now: datetime, *, dry_run: bool) -> BulkResult:
        """Do what a call asks, or say what that would be."""
        by_filter = not call.task_ids
        if call.verb is BulkVerb.DISCARD:
            return self._discarded(call, now, dry_run=dry_run or (by_filter and call.expect is None))
        replays = by_filter and call.verb is BulkVerb.REPLAY
        spent = self._targets.meant(call).spent if replays else None
        decision = self._targets.decided(call, self._decision(call, now, spent), now)
        chains = self._targets.recurring_chains(call) if call.verb is BulkVerb.MOVE else ()
        if dry_run or (by_filter and call.expect is None and not earlier_of(self._store, call, now)):
            meant = self._targets.meant(call, decision)
            tried = previewed_result(self._store, call, meant.records, decision, now, via=self._via)
            done = replace(tried, left=meant.left)
        else:
            done = self._writer.change(call, decision, now)
        return with_generation_notes(done, chains, now) if chains else done

    def _discarded(self, call: BulkCall, now: datetime, *, dry_run: bool) -> BulkResult:
        """Close the dead letters of the tasks that a call means; the tasks stay as they are."""
        earlier = [] if dry_run else earlier_of(self._store, call, now)
        if earlier:
            return with_undo(
                BulkResult(call.verb, stored_outcomes(self._store, call, earlier), now, repeated=True), earlier
            )
        records = self._targets.meant(call).records
        letters = open_letters(self._store, call, records)
        run_ids = check_number(letters)
        if not dry_run:
            check_expected(call, records)
            require_reason(call.reason)
        result = letters_closed(records, letters, now, dry_run=dry_run, by_filter=not call.task_ids)
        if dry_run:
            return result
        done = (
            self._letters.discard(run_ids, reason=call.reason, max_letters=len(run_ids), by=call.by)
            if run_ids
            else None
        )
        return with_undo(result, [self._remember(call, result, done.closed if done else ())])

    def _remember(self, call: BulkCall, result: BulkResult, closed: Sequence[ClosedLetter]) -> StoredBatch:
        """Store what became of the tasks, so that a repeat of the call is answered with it, and it can be undone."""
        now, keep = result.now, BULK_KEY_KEPT if call.idempotency_key else BULK_UNDO_WINDOW + changes.UNDO_GRACE
        became = {each.record.task.id: each.became for each in result.outcomes}
        undo, why = undo_tokens(closed), {each.record.task.id: each.why for each in result.outcomes if each.why}
        batch = StoredBatch(call.verb, call.arguments_digest(), call.new_token(), now, became, why, undo, tuple(became))
        write = BatchWrite(batch, 0, now + keep, call.by.acting(self._via), call.reason, repeat_name=call.repeat_name)
        self._store.batches.remember(call.of_tenant, write)
        return batch
