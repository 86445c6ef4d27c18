"""Takes back the change of a whole chain, the answer to what its steps asked, or that it was scheduled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

from duetime.scheduler import remedies
from duetime.scheduler.calls.bulk_change import Became, BulkDecision, BulkResult, BulkVerb
from duetime.scheduler.calls.reschedule import CallArguments
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.events import EventKind
from duetime.scheduler.foresight.readers.chain_reader import ChainReader
from duetime.scheduler.intake.changes.actions import UNDOES_SCHEDULING, unschedule
from duetime.scheduler.intake.changes.bulk import decision_of
from duetime.scheduler.intake.changes.chain_notes import stop_requests_note, undo_failures_note
from duetime.scheduler.intake.changes.chain_rule import StepDecision
from duetime.scheduler.intake.idempotency import REPEATED_CALL
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.records import Change, LastChange
from duetime.scheduler.rules import changes
from duetime.scheduler.service.bulk.bulk_call import BulkCall
from duetime.scheduler.service.bulk.bulk_undo import BulkUndo
from duetime.scheduler.service.bulk.bulk_writer import BulkWriter
from duetime.scheduler.service.bulk.stored_calls import earlier_of
from duetime.scheduler.service.chains.chain_approvals import ChainApprovalService, chain_to_change
from duetime.scheduler.service.chains.chain_writer import ChainWriter, bulk_call_of
from duetime.scheduler.store import Store
from duetime.scheduler.views import TaskRecord, TaskView
from duetime.scheduler.waits.approval import is_of_answer


class _StepStays(Exception):
    """Ends a transaction that is all or nothing."""

    def __init__(self, refused: Refused) -> None:
        super().__init__()
        self.refused = refused


class ChainUndo:
    """Takes changes of chains back: all of a change, or what of it was not changed again since."""

    def __init__(
        self,
        store: Store,
        planner: Planner,
        *,
        chains: ChainReader,
        approvals: ChainApprovalService,
        writer: ChainWriter,
        bulk: BulkWriter,
        bulk_undo: BulkUndo,
        on_change: Callable[[Sequence[str]], None],
    ) -> None:
        self._store = store
        self._planner = planner
        self._chains = chains
        self._approvals = approvals
        self._writer = writer
        self._bulk = bulk
        self._bulk_undo = bulk_undo
        self._on_change = on_change

    def undo(self, chain_id: str, undo: str | None, call: CallArguments) -> TaskView:
        """Take back the answer to what its steps asked, or the change of all of it, that the token names."""
        if undo is None:
            problem = "an undo of a chain takes the token that the answer to its change has"
            raise InvalidArgument("undo", problem, accepted="the `undo` in that answer")
        if undo == UNDOES_SCHEDULING:
            return self._unscheduled_chain(chain_id, call)
        if is_of_answer(undo):
            return self._approvals.ask_again(chain_id, undo, call)
        found, now = chain_to_change(self._store, chain_id, call), self._store.now()
        asked, rejected = (
            bulk_call_of(found, BulkVerb.UNDO, {"undo": undo}, call),
            self._approvals.rejected_steps(found, undo),
        )
        if not (rejected or changes.is_bulk_token(undo) or earlier_of(self._store, asked, now)):
            raise _takes_nothing_back(chain_id, undo)
        stored = self._store.batches.stored(asked.of_tenant, undo)
        result = self._no_taken_back(asked, rejected, now) if rejected else self._bulk_undo.taken_back(asked, now)
        changed = {task_id for each in stored for task_id, word in each.became.items() if word is Became.CHANGED}
        after = self._store.chains.get(asked.of_tenant, chain_id)
        if not result.repeated:
            self._on_change([step.record.task.id for step in after.steps])
        left = undo_failures_note(after, result, () if result.repeated else changed)
        again = (REPEATED_CALL,) if result.repeated else ()
        view = self._chains.get(chain_id, by=asked.by)
        return replace(view, warnings=(*again, *left, *stop_requests_note(after), *view.warnings))

    def _no_taken_back(self, call: BulkCall, steps: Sequence[str], now: datetime) -> BulkResult:
        """Ask the rejected question again, in all these steps or in none. Raises Refused."""

        def decide(record: TaskRecord, _last: LastChange | None) -> Change:
            return changes.undo_cancel(record, now, None)

        decision = BulkDecision(BulkVerb.UNDO, EventKind.CANCEL_UNDONE, _or_none(decide), lambda _found: None)
        with _all_or_none():
            return self._bulk.change(replace(call, task_ids=tuple(steps)), decision, now)

    def _unscheduled_chain(self, chain_id: str, call: CallArguments) -> TaskView:
        """Cancel all of a chain that was just made. Raises Refused where a step has begun, or was changed."""
        now = self._store.now()

        def decide(record: TaskRecord, _last: LastChange | None) -> Change:
            return unschedule(record, now)

        cancel = replace(decision_of(BulkVerb.CANCEL, self._planner, now, None), decide=_or_none(decide))
        with _all_or_none():
            return self._writer.change(
                chain_to_change(self._store, chain_id, call), cancel, {"undo": UNDOES_SCHEDULING}, call
            )


def _takes_nothing_back(chain_id: str, undo: str) -> Refused:
    """Return why a token that is none of a change of many tasks takes back nothing of a chain."""
    message = (
        f"{undo[:40]!r} takes nothing of {chain_id} back: it is of something else, was used, or is older than 30 s."
    )
    return Refused(message, argument="undo", remedy=remedies.Inspect(chain_id))


def _or_none(decide: StepDecision) -> StepDecision:
    """Return a decision whose refusal of one step ends the transaction of all; see `_all_or_none`."""

    def decided(record: TaskRecord, last: LastChange | None) -> Change:
        try:
            return decide(record, last)
        except Refused as refused:
            raise _StepStays(refused) from refused

    return decided


@contextmanager
def _all_or_none() -> Iterator[None]:
    """Turn the end of an all-or-nothing transaction into the refusal of the step that caused it."""
    try:
        yield
    except _StepStays as stays:
        raise stays.refused from None
