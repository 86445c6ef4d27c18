"""Writes the change of a chain as one of its steps, or says what it would leave."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from duetime.scheduler import remedies
from duetime.scheduler.calls.bulk_change import Became, BulkDecision, BulkVerb, TaskOutcome
from duetime.scheduler.calls.reschedule import CallArguments
from duetime.scheduler.chain.chain import ChainRecord
from duetime.scheduler.chain.rerun import none_to_rerun, steps_to_rerun
from duetime.scheduler.errors import Refused
from duetime.scheduler.foresight.readers.chain_reader import ChainReader
from duetime.scheduler.foresight.task_view import without_ids
from duetime.scheduler.intake.changes.chain_notes import notes, still_cancelled_note, stop_requests_note
from duetime.scheduler.intake.changes.chain_rule import StepDecision
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.records import Change, LastChange
from duetime.scheduler.rules.states import OPEN
from duetime.scheduler.service.bulk.bulk_call import ALL_TASKS, BulkArguments, BulkCall
from duetime.scheduler.service.bulk.bulk_preview import rehearsed
from duetime.scheduler.service.bulk.bulk_writer import BulkWriter
from duetime.scheduler.store import Store
from duetime.scheduler.views import TaskRecord, TaskView


class ChainWriter:
    """Changes the steps of a chain in one transaction, by a decision about each."""

    def __init__(
        self,
        store: Store,
        chains: ChainReader,
        bulk: BulkWriter,
        *,
        on_change: Callable[[Sequence[str]], None],
        via: str | None,
    ) -> None:
        self._store = store
        self._chains = chains
        self._bulk = bulk
        self._on_change = on_change
        self._via = via

    def change(
        self,
        found: ChainRecord,
        decision: BulkDecision,
        given: Mapping[str, Any],
        call: CallArguments,
        decide: StepDecision | None = None,
    ) -> TaskView:
        """Change steps, those that are open unless `decide` says otherwise, and return the chain as it is then.

        Raises Refused where no step can be changed.
        """
        bulk = bulk_call_of(found, decision.verb, given, call)
        each_step = replace(decision, decide=decide or partial(of_open, decision))
        result = self._bulk.change(bulk, each_step, self._store.now())
        _check_changed(found, result.outcomes, decision)
        if decision.chain:
            self._on_change(bulk.task_ids)
        after = self._store.chains.get(bulk.of_tenant, found.chain.id)
        cancelled = (
            (*still_cancelled_note(after, result), *stop_requests_note(after))
            if decision.verb is BulkVerb.CANCEL
            else ()
        )
        view = replace(self._chains.view_of(after), undo=result.undo, undo_ends=result.undo_until)
        return replace(view, warnings=(*notes(found, result), *cancelled, *view.warnings))

    def tried(
        self, found: ChainRecord, decision: BulkDecision, given: Mapping[str, Any], call: CallArguments
    ) -> TaskView:
        """Return the chain as it would be after a change. Raises Refused where no step can be changed."""
        bulk, now = bulk_call_of(found, decision.verb, given, call), self._store.now()
        done = rehearsed(self._store, bulk, [step.record for step in found.steps], decision, now, via=self._via)
        _check_changed(found, done, decision)
        after = {each.record.task.id: each.record for each in done}
        steps = tuple(step._replace(record=after[step.record.task.id]) for step in found.steps)
        chain = decision.chain.applied(found.chain) if decision.chain else found.chain
        return without_ids(self._chains.view_of(replace(found, chain=chain, steps=steps)))


def bulk_call_of(found: ChainRecord, verb: BulkVerb, given: Mapping[str, Any], call: CallArguments) -> BulkCall:
    """Return the change of a chain as one of its steps, known by its key or by what was sent."""
    steps = [step.record.task.id for step in found.steps]
    content = {"change": verb.value, "chain": found.chain.id, **(call.get("raw") or given)}
    content.pop("revision", None)
    key, raw = call.get("idempotency_key"), call.get("raw")
    asked: BulkArguments = {"idempotency_key": key, "by": call.get("by", LOCAL), "reason": given.get("reason")}
    asked |= {"undo": given["undo"]} if verb is BulkVerb.UNDO else {}
    known = content if raw is not None or key is not None else None
    audit_verb = "reschedule" if verb is BulkVerb.MOVE and given.keys() != {"when"} else None
    return replace(BulkCall.of(verb, steps, ALL_TASKS, {**asked, "raw": known}), audit_verb=audit_verb)


def of_open(decision: BulkDecision, record: TaskRecord, last: LastChange | None) -> Change:
    """Decide about an open step; one that has ended stays as it is, but for a pause that it has, or that holds runs."""
    held = decision.verb is BulkVerb.RESUME and record.task.paused
    to_hold = decision.verb is BulkVerb.PAUSE and record.side_runs
    if record.run.state not in OPEN and decision.verb is not BulkVerb.CANCEL and not (held or to_hold):
        raise Refused(f"{record.task.id} has ended.")
    return decision.decide(record, last)


def _check_changed(found: ChainRecord, outcomes: Sequence[TaskOutcome], decision: BulkDecision) -> None:
    """Raise Refused, with the reason of an open step, where no step was changed."""
    if not outcomes or any(each.became is not Became.REFUSED for each in outcomes):
        return
    of_ended = decision.verb is BulkVerb.REPLAY
    if of_ended and not steps_to_rerun(found):
        raise none_to_rerun(found, argument="task_id")
    whys = [each.why for each in outcomes if each.record.run.state in OPEN or of_ended]
    why = next(filter(None, whys), f"all steps of {found.chain.id} have ended.")
    raise Refused(
        why.removesuffix(f" {remedies.Inspect.plain}"), argument="task_id", remedy=remedies.Inspect(found.chain.id)
    )
