"""The part of the service that changes a whole chain: all its open steps in one transaction, with one undo."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final, Unpack

from duetime.scheduler import remedies
from duetime.scheduler.approvals.approval import is_of_answer
from duetime.scheduler.bulk.change import Became, BulkDecision, BulkResult, BulkVerb, TaskOutcome
from duetime.scheduler.chain.chain import ChainRecord, failed_first, foremost
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.events import EventKind
from duetime.scheduler.foresight.task_view import chain_view
from duetime.scheduler.ids import is_chain_id
from duetime.scheduler.intake.changes.actions import RUN_NOW, UNDO, UNDOES_SCHEDULING, unscheduled
from duetime.scheduler.intake.changes.bulk import decision_of
from duetime.scheduler.intake.changes.chain import PAUSES, chain_decision, given_to_chain
from duetime.scheduler.intake.changes.chain_notes import asked_to_stop, left_out, not_taken_back, said, stays_cancelled
from duetime.scheduler.intake.changes.chain_rule import own_change
from duetime.scheduler.intake.idempotency import REPEATED
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.records import Change, LastChange
from duetime.scheduler.request import ActionOnTask, Moment
from duetime.scheduler.reschedule.reschedule import CallArguments, RescheduleCall, apart
from duetime.scheduler.rules import changes
from duetime.scheduler.rules.states import OPEN
from duetime.scheduler.service.bulk_call import EVERYTHING, BulkArguments, BulkCall, rehearsed
from duetime.scheduler.service.chain_bulk import ChainBulkService
from duetime.scheduler.task import ApprovalAnswer
from duetime.scheduler.views import TaskRecord, TaskView

StepDecision = Callable[[TaskRecord, LastChange | None], Change]
_NOW: Final = "now"


class _StepStays(Exception):
    """Ends a transaction that is all or nothing."""

    def __init__(self, refused: Refused) -> None:
        super().__init__()
        self.refused = refused


class ChainService(ChainBulkService):
    """Cancels, moves, pauses and resumes chains: the calls for a task take the id of a chain as well."""

    def cancel(self, task_id: str, *, reason: str | None = None, **call: Unpack[CallArguments]) -> TaskView:
        """Cancel a task; `undo` of the view takes it back for 30 s. Cancelling twice changes nothing.

        Of a chain, all open steps are cancelled in one transaction, and `undo` takes that back for 10 minutes.
        """
        if not is_chain_id(task_id):
            return super().cancel(task_id, reason=reason, **call)
        found = self._chain_to_change(task_id, call)
        decision = decision_of(BulkVerb.CANCEL, self._planner, self._store.now(), None)
        return self._change_chain(found, decision, {"reason": reason}, call)

    def reschedule(self, task_id: str, **arguments: Unpack[RescheduleCall]) -> TaskView:
        """Change what is given (see `Reschedule`) and return the task; everything else stays.

        Like `cancel` and `act` it takes `CallArguments` as well: a repeat changes nothing and says so. Raises
        IdempotencyConflict as `schedule` does. A chain is moved, paused, resumed and changed as a whole. `when` is the
        time of its next step, and the others keep their distance from it. Of one that has ended, `now` runs again what
        failed.
        """
        if not is_chain_id(task_id):
            return super().reschedule(task_id, **arguments)
        dry_run = arguments.pop("dry_run", False)
        call, wanted = apart(arguments)
        found = self._chain_to_change(task_id, call)
        given = given_to_chain(found, wanted)
        if _is_now(given) and self._is_replay(found, given, call):
            return self._run_again(found, given, call, dry_run=dry_run)
        decision = self._decision(found, given, self._store.now())
        _check(found, decision)
        if dry_run:
            view = self._tried_chain(found, decision, given, call)
        else:
            view = self._change_chain(found, decision, given, call, decision.decide)
        passed = left_out(found, view, self._store.now()) if "when" in given else ()
        return replace(view, warnings=(*passed, *view.warnings))

    def act(
        self,
        task_id: str,
        action: ActionOnTask,
        *,
        minutes: int | None = None,
        until: Moment | None = None,
        undo: str | None = None,
        reason: str | None = None,
        **call: Unpack[CallArguments],
    ) -> TaskView:
        """Do what a card's button asks for: snooze, run_now, skip_next, undo, done, approve or reject.

        Of a whole chain what failed is run now again, a change can be undone, and its question answered. The rest is
        done to a step.
        """
        if not is_chain_id(task_id) or action in set(ApprovalAnswer):
            return super().act(task_id, action, minutes=minutes, until=until, undo=undo, reason=reason, **call)
        if action == RUN_NOW:
            return self._run_again(self._chain_to_change(task_id, call), {"action": RUN_NOW}, call)
        if action != UNDO:
            raise Refused(
                f"{action!r} is for one task, and {task_id} is a chain: name the step.",
                argument="task_id",
                remedy=remedies.Inspect(task_id),
            )
        return self._undo_chain(task_id, undo, call)

    def _undo_chain(self, chain_id: str, undo: str | None, call: CallArguments) -> TaskView:
        """Take back the answer to what its steps asked, or the change of all of it, that the token names."""
        if undo is None:
            raise InvalidArgument(
                "undo", "an undo of a chain takes the token that the answer to its change has", example="undo='u_b1'"
            )
        if undo == UNDOES_SCHEDULING:
            return self._unscheduled_chain(chain_id, call)
        if is_of_answer(undo):
            return self._asked_again(chain_id, undo, call)
        found, now = self._chain_to_change(chain_id, call), self._store.now()
        asked, rejected = _bulk_call(found, BulkVerb.UNDO, {"undo": undo}, call), self._rejected_steps(found, undo)
        if not (rejected or changes.is_of_many(undo) or self._earlier(asked, now)):
            raise _takes_nothing_back(chain_id, undo)
        stored = self._store.batches.stored(asked.of_tenant, undo)
        result = self._no_taken_back(asked, rejected, now) if rejected else self._taken_back(asked, now)
        changed = {task_id for each in stored for task_id, word in each.became.items() if word is Became.CHANGED}
        after = self._store.chains.get(asked.of_tenant, chain_id)
        if not result.repeated:
            self._on_change([step.record.task.id for step in after.steps])
        left = not_taken_back(after, result, () if result.repeated else changed)
        again = (REPEATED,) if result.repeated else ()
        view = self.get(chain_id, by=asked.by)
        return replace(view, warnings=(*again, *left, *asked_to_stop(after), *view.warnings))

    def _no_taken_back(self, asked: BulkCall, steps: Sequence[str], now: datetime) -> BulkResult:
        """Ask again what was rejected, in all these steps or in none. Raises Refused."""

        def decide(record: TaskRecord, _last: LastChange | None) -> Change:
            return changes.undo_cancel(record, now, None)

        decision = BulkDecision(BulkVerb.UNDO, EventKind.CANCEL_UNDONE, _or_none(decide), lambda _found: None)
        with _all_or_none():
            return self._change_named(replace(asked, task_ids=tuple(steps)), decision, now)

    def _unscheduled_chain(self, chain_id: str, call: CallArguments) -> TaskView:
        """Cancel all of a chain that was just made. Raises Refused where a step has begun, or was changed."""
        now = self._store.now()

        def decide(record: TaskRecord, _last: LastChange | None) -> Change:
            return unscheduled(record, now)

        cancel = replace(decision_of(BulkVerb.CANCEL, self._planner, now, None), decide=_or_none(decide))
        with _all_or_none():
            return self._change_chain(self._chain_to_change(chain_id, call), cancel, {"undo": UNDOES_SCHEDULING}, call)

    def _decision(self, found: ChainRecord, given: Mapping[str, Any], now: datetime) -> BulkDecision:
        """Return what a reschedule does to each step."""
        zone = given.get("timezone") or found.chain.timezone
        if given.keys() & set(PAUSES):
            paused, end = given.get("pause", True), given.get("pause_until")
            pause = decision_of(BulkVerb.PAUSE if paused else BulkVerb.RESUME, self._planner, now, end, zone=zone)
            return replace(pause, decide=partial(_of_open, pause))
        own, due = own_change(found, given, self._planner, now), self._due(found, now)
        to = given.get("when") or (own.after.get("due_at") if own else None)
        move = self._move(found, to, zone, now) if to else None
        return replace(chain_decision(found, given, move, self._planner, now, due=due), chain=own)

    def _is_replay(self, found: ChainRecord, given: Mapping[str, Any], call: CallArguments) -> bool:
        """Whether a chain has ended and failed, or this repeats the call that let it go on."""
        if not foremost(found):
            return bool(failed_first(found))
        return bool(self._earlier(_bulk_call(found, BulkVerb.REPLAY, given, call), self._store.now()))

    def _run_again(
        self, found: ChainRecord, given: Mapping[str, Any], call: CallArguments, *, dry_run: bool = False
    ) -> TaskView:
        """Run again the steps that failed by themselves: what had ended with them waits for them once more."""
        failed = frozenset(step.record.task.id for step in failed_first(found))
        replay = decision_of(BulkVerb.REPLAY, self._planner, self._store.now(), None)

        def decide(record: TaskRecord, last: LastChange | None) -> Change:
            if not failed:
                raise Refused(f"no step of {found.chain.id} has failed.")
            return replay.decide(record, last) if record.task.id in failed else Change(record.task, record.run)

        if dry_run:
            return self._tried_chain(found, replace(replay, decide=decide), given, call)
        return self._change_chain(found, replay, given, call, decide)

    def _change_chain(
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
        bulk = _bulk_call(found, decision.verb, given, call)
        each_step = replace(decision, decide=decide or partial(_of_open, decision))
        result = self._change_named(bulk, each_step, self._store.now())
        _check_changed(found, result.outcomes, decision)
        if decision.chain:
            self._on_change(bulk.task_ids)
        after = self._store.chains.get(bulk.of_tenant, found.chain.id)
        cancelled = (*stays_cancelled(after, result), *asked_to_stop(after)) if decision.verb is BulkVerb.CANCEL else ()
        return replace(self._chain_view(after), undo=result.undo, warnings=(*said(found, result), *cancelled))

    def _tried_chain(
        self, found: ChainRecord, decision: BulkDecision, given: Mapping[str, Any], call: CallArguments
    ) -> TaskView:
        """Return the chain as it would be after a change. Raises Refused where no step can be changed."""
        bulk, now = _bulk_call(found, decision.verb, given, call), self._store.now()
        done = rehearsed(self._store, bulk, [step.record for step in found.steps], decision, now, via=self._via)
        _check_changed(found, done, decision)
        after = {each.record.task.id: each.record for each in done}
        steps = tuple(step._replace(record=after[step.record.task.id]) for step in found.steps)
        chain = decision.chain.applied(found.chain) if decision.chain else found.chain
        return chain_view(replace(found, chain=chain, steps=steps), now)


def _takes_nothing_back(chain_id: str, undo: str) -> Refused:
    """Return why a token that is none of a change of many tasks takes back nothing of a chain."""
    said = f"{undo[:40]!r} takes nothing of {chain_id} back: it is of something else, was used, or is older than 30 s."
    return Refused(said, argument="undo", remedy=remedies.Inspect(chain_id))


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
    """Raise the refusal of the step that ended the transaction."""
    try:
        yield
    except _StepStays as stays:
        raise stays.refused from None


def _bulk_call(found: ChainRecord, verb: BulkVerb, given: Mapping[str, Any], call: CallArguments) -> BulkCall:
    """Return the change of a chain as one of its steps, known by its key or by what was sent."""
    steps = [step.record.task.id for step in found.steps]
    content = {"change": verb.value, "chain": found.chain.id, **(call.get("raw") or given)}
    content.pop("revision", None)
    key, raw = call.get("idempotency_key"), call.get("raw")
    asked: BulkArguments = {"idempotency_key": key, "by": call.get("by", LOCAL), "reason": given.get("reason")}
    asked |= {"undo": given["undo"]} if verb is BulkVerb.UNDO else {}
    known = content if raw is not None or key is not None else None
    said = "reschedule" if verb is BulkVerb.MOVE and given.keys() != {"when"} else None
    return replace(BulkCall.of(verb, steps, EVERYTHING, {**asked, "raw": known}), said=said)


def _of_open(decision: BulkDecision, record: TaskRecord, last: LastChange | None) -> Change:
    """Decide about an open step; one that has ended stays as it is."""
    if record.run.state not in OPEN and decision.verb is not BulkVerb.CANCEL:
        raise Refused(f"{record.task.id} has ended.")
    return decision.decide(record, last)


def _check(found: ChainRecord, decision: BulkDecision) -> None:
    """Raise InvalidArgument(s) for a change that no step of its kind could take."""
    for step in found.steps:
        with suppress(Refused):
            decision.decide(step.record, None)


def _check_changed(found: ChainRecord, outcomes: Sequence[TaskOutcome], decision: BulkDecision) -> None:
    """Raise Refused, with the reason of an open step, where no step was changed."""
    if not outcomes or any(each.became is not Became.REFUSED for each in outcomes):
        return
    of_ended = decision.verb is BulkVerb.REPLAY
    whys = [each.why for each in outcomes if each.record.run.state in OPEN or of_ended]
    why = next(filter(None, whys), f"all steps of {found.chain.id} have ended.")
    raise Refused(why, argument="task_id", remedy=remedies.Inspect(found.chain.id))


def _is_now(given: Mapping[str, Any]) -> bool:
    when = given.get("when")
    return given.keys() == {"when"} and isinstance(when, str) and when.strip().lower() == _NOW
