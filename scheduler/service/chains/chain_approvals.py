"""Answers the question that all steps of a chain share, and takes such an answer back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from duetime.scheduler import remedies
from duetime.scheduler.calls.reschedule import CallArguments, Repeatable
from duetime.scheduler.chain.chain import ChainRecord, StepRecord
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.foresight.explain import RunFacts
from duetime.scheduler.foresight.readers.chain_reader import ChainReader
from duetime.scheduler.foresight.readers.run_facts import RunFactReader
from duetime.scheduler.intake.changes.actions import UNDO
from duetime.scheduler.intake.idempotency import REPEATED_CALL
from duetime.scheduler.intake.validation import check_reason
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.rules.changes import UNDO_GRACE, undo_token
from duetime.scheduler.service.task_approvals import GENERATION_SKIPPED, ApprovalService, undo_of_yes
from duetime.scheduler.store import Store
from duetime.scheduler.task import ApprovalAnswer
from duetime.scheduler.views import TaskView
from duetime.scheduler.waits.approval import Approval, taken_back_by

MAX_RUNS_NAMED: Final = 6
"""Questions that a refusal names, each by its run."""


class ChainApprovalService:
    """Answers once for every step of a chain that asks the same."""

    def __init__(
        self,
        store: Store,
        facts: RunFactReader,
        chains: ChainReader,
        approvals: ApprovalService,
        *,
        on_change: Callable[[Sequence[str]], None],
        via: str | None,
    ) -> None:
        self._store = store
        self._facts = facts
        self._chains = chains
        self._approvals = approvals
        self._on_change = on_change
        self._via = via

    def answer(self, chain_id: str, answer: ApprovalAnswer, reason: str | None, call: CallArguments) -> TaskView:
        """Answer for every step of a chain that asks: they ask the same, or each has to be named. Raises Refused."""
        found = chain_to_change(self._store, chain_id, call)
        facts = self._facts.open_waits([step.record for step in found.steps])
        steps = _asking_steps(found, facts) or found.steps[:1]
        by, ids = call.get("by", LOCAL), [step.record.task.id for step in steps]
        check_reason(reason)
        new = self._store.approvals.answer_all(by.tenant, ids, answer, reason=reason, **by.acting(self._via))
        self._on_change(ids)
        answered = self._store.chains.get(by.tenant, chain_id)
        if not new:
            return replace(self._chains.view_of(answered, warnings=(REPEATED_CALL,)), undo=None)
        older = {run_id for run_id, each in facts.items() if each.side_approvals}  # no undo takes these answers back
        current = {step.record.task.id for step in steps if step.record.run.id not in older}
        fresh = (step.record.run for step in answered.steps if step.record.task.id in current)
        if answer is ApprovalAnswer.APPROVE:
            return replace(self._chains.view_of(answered), undo=undo_of_yes(self._store, list(fresh), by))
        token = next((undo_token(run, self._store.now()) for run in fresh), None)
        warnings = (GENERATION_SKIPPED,) if answered.chain.generation != found.chain.generation else ()
        return replace(self._chains.view_of(answered, warnings=warnings), undo=token)

    def ask_again(self, chain_id: str, undo: str, call: CallArguments) -> TaskView:
        """Take the approval with this token back for all the steps that it answered, or for none."""
        by = call.get("by", LOCAL)
        steps = [step.record for step in chain_to_change(self._store, chain_id, call).steps]
        answered = self._store.approvals.approved(by.tenant, [each.run.id for each in steps])
        given = {each.task.id: answered[each.run.id] for each in steps if each.run.id in answered}
        first = next((task_id for task_id, answer in given.items() if taken_back_by(answer) == undo), None)
        at = given[first].closed_at if first else None
        together = [task_id for task_id, answer in given.items() if first and answer.closed_at == at]
        repeatable = Repeatable.of("act", chain_id, {"action": UNDO, "undo": undo}, call)
        keyless: CallArguments = {**call, "revision": None}
        self._approvals.ask_again(together or [steps[0].task.id], undo, repeatable, keyless)
        return self._chains.view_of(self._store.chains.get(by.tenant, chain_id))

    def rejected_steps(self, found: ChainRecord, undo: str) -> Sequence[str]:
        """Return the steps that were rejected by the answer with this token; none for that of another change."""
        earliest = self._store.now() - UNDO_GRACE
        records = [step.record for step in found.steps]
        first = next((each.run for each in records if undo_token(each.run, earliest) == undo), None)
        if first is None:
            return ()
        together = [each for each in records if each.run.ended_at == first.ended_at]
        rejected = self._store.approvals.rejected(found.chain.tenant, [each.run.id for each in together])
        return [each.task.id for each in together if each.run.id in rejected]


def chain_to_change(store: Store, chain_id: str, call: CallArguments) -> ChainRecord:
    """Return a chain that a call changes. Raises TaskNotFound, and InvalidArgument for a revision: a chain has none."""
    if call.get("revision") not in {None, 1}:
        raise InvalidArgument("revision", "a chain has none", accepted="1, or none", example="revision=1")
    return store.chains.get(call.get("by", LOCAL).tenant, chain_id)


def _asking_steps(found: ChainRecord, facts: Mapping[str, RunFacts]) -> Sequence[StepRecord]:
    """Return the steps of which the user is asked whether they may run. Raises Refused where the questions differ."""
    asked = [(step, _asked(facts[step.record.run.id])) for step in found.steps if step.record.run.id in facts]
    _refuse_several_generations(found.chain.id, asked)
    asking = [(step, of_step[0].question) for step, of_step in asked if of_step]
    if len({question for _, question in asking}) > 1:
        several = ", ".join(f"{step.name} ({step.record.task.id})" for step, _ in asking)
        message = f"{found.chain.id} asks more than one question: answer each step by its id: {several}."
        raise Refused(message, argument="task_id", remedy=remedies.Inspect(found.chain.id))
    return [step for step, _ in asking]


def _asked(facts: RunFacts) -> Sequence[Approval]:
    """Return what the runs of a step ask, the oldest question first."""
    asked = [*facts.side_approvals, *((facts.approval,) if facts.approval else ())]
    return sorted(asked, key=lambda each: (each.asked_at, each.run_id))


def _refuse_several_generations(chain_id: str, asked: Sequence[tuple[StepRecord, Sequence[Approval]]]) -> None:
    """Raise Refused where generations that run at once ask: one answer could mean any of them."""
    numbers = {run.id: run.number for step, _ in asked for run in (step.record.run, *step.record.side_runs)}
    several = len({numbers[each.run_id] for _, of_step in asked for each in of_step})
    if several > 1:
        named = [f"{step.name} {each.run_id} (generation {numbers[each.run_id]})" for step, of in asked for each in of]
        more = f" and {len(named) - MAX_RUNS_NAMED} more" if len(named) > MAX_RUNS_NAMED else ""
        runs = ", ".join(named[:MAX_RUNS_NAMED]) + more
        message = f"{chain_id} asks in {several} generations: answer each by the id of its run: {runs}."
        raise Refused(message, argument="task_id", remedy=remedies.Inspect(chain_id))
