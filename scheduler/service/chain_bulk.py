"""The part of the service by which a call that changes many tasks means whole chains by their ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from typing import Final

from duetime.scheduler import remedies
from duetime.scheduler.bulk.change import BulkDecision, BulkVerb
from duetime.scheduler.chain.chain import ChainRecord, StepRecord, failed_first, foremost
from duetime.scheduler.errors import Refused, TaskNotFound
from duetime.scheduler.foresight.explain import RunFacts
from duetime.scheduler.ids import is_chain_id
from duetime.scheduler.intake.changes.chain import ChainMove, moved_by, next_due
from duetime.scheduler.request import Moment
from duetime.scheduler.rules.states import OPEN
from duetime.scheduler.service.bulk_call import BulkCall
from duetime.scheduler.service.chain_answers import ChainAnswerService
from duetime.scheduler.views import TaskRecord

_NEVER: Final = datetime.max.replace(tzinfo=UTC)


class ChainBulkService(ChainAnswerService):
    """Changes whole chains among many tasks."""

    def _decided_many(self, call: BulkCall, decision: BulkDecision, now: datetime) -> BulkDecision:
        """Return a decision about many tasks by which each chain that is named keeps the distances of its steps."""
        to, moves = call.to, dict[str, Callable[[], ChainMove]]()
        if decision.verb is not BulkVerb.MOVE or to is None:
            return decision
        for found in self._chains_of(call):
            move = partial(self._move, found, to, found.chain.timezone, now)
            moves |= dict.fromkeys((step.record.task.id for step in found.steps), move)
        return moved_by(moves, decision, self._planner, now) if moves else decision

    def _ids_meant(self, call: BulkCall) -> Sequence[str]:
        """Return the tasks that are named; of a chain the steps that the change is for, or all where it is for none.

        Raises Refused for the discard of a chain of which no step has failed.
        """
        steps = {found.chain.id: _meant(found, call.verb) or found.steps for found in self._chains_of(call)}
        ids = (
            [step.record.task.id for step in steps[task_id]] if task_id in steps else [task_id]
            for task_id in call.task_ids
        )
        return list(dict.fromkeys(chain.from_iterable(ids)))

    def _chains_of(self, call: BulkCall) -> list[ChainRecord]:
        """Return the chains that a call names. Raises TaskNotFound."""
        try:
            return [self._store.chains.get(call.of_tenant, each) for each in call.task_ids if is_chain_id(each)]
        except TaskNotFound as missing:
            raise TaskNotFound(missing.task_id, missing.closest, argument="task_ids") from None

    def _move(self, found: ChainRecord, to: Moment, zone: str, now: datetime) -> ChainMove:
        """Return how a chain is moved. Raises Refused where all of it has ended, and InvalidArgument."""
        first = [step.record for step in foremost(found)]
        early = any(each.awaited and each.awaited.wait.at_once for each in self._open_waits(first).values())
        due = self._due(found, now, only=first if early else None)
        if due is None:
            raise _ended(found)
        return ChainMove.to(to, due, zone, self._planner, now, early=early)

    def _due(self, found: ChainRecord, now: datetime, *, only: Sequence[TaskRecord] | None = None) -> datetime | None:
        """Return when a chain, or `only` some of its steps, goes on or begins; None where all of it has ended."""
        records = [step.record for step in found.steps] if only is None else only
        ends = {run_id: end for run_id, each in self._open_waits(records).items() if (end := _end_of_wait(each))}
        return next_due([record.run for record in records], now, ends)


def _ended(found: ChainRecord) -> Refused:
    """Return why an ended chain cannot be moved; what failed in it can run again at once."""
    chain_id = found.chain.id
    remedy = remedies.RunFailedSteps(chain_id) if failed_first(found) else remedies.Inspect(chain_id)
    return Refused(f"all steps of {chain_id} have ended.", argument="when", remedy=remedy)


def _end_of_wait(facts: RunFacts) -> datetime | None:
    """Return from when on a change moves a run that waits for an event or an answer; None for no such wait."""
    if facts.approval is not None:
        return _NEVER  # only its user, or the default, lets it go on
    return facts.awaited.wait.until if facts.awaited else None


def _meant(found: ChainRecord, verb: BulkVerb) -> Sequence[StepRecord]:
    """Return the steps that a change is for: those that are open, those that failed, or failed by themselves."""
    if verb not in {BulkVerb.REPLAY, BulkVerb.DISCARD}:
        return [step for step in found.steps if step.record.run.state in OPEN]
    failed = failed_first(found)
    if verb is BulkVerb.DISCARD and not failed:
        chain_id = found.chain.id
        said = f"no step of {chain_id} has failed."
        raise Refused(said, argument="task_ids", remedy=remedies.Inspect(chain_id))
    return failed
