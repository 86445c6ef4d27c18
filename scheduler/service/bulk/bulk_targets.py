"""The tasks that a call for many tasks means: those that it names, the steps of chains, or those of a filter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Final

from duetime.scheduler.calls.bulk_change import MAX_TASKS_CHANGED, BulkDecision, BulkVerb
from duetime.scheduler.chain.chain import ChainRecord, StepRecord, last_generation, root_failures, steps_to_come
from duetime.scheduler.chain.rerun import none_to_rerun, steps_to_rerun
from duetime.scheduler.errors import InvalidArgument, TaskNotFound
from duetime.scheduler.ids import is_chain_id
from duetime.scheduler.intake.changes.bulk import replaying
from duetime.scheduler.intake.changes.chain import ChainMove, move_chains, whole_chains
from duetime.scheduler.intake.changes.pause import with_later_generations
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.rules.states import OPEN
from duetime.scheduler.rules.time.times import describe, utc
from duetime.scheduler.service.bulk.bulk_call import BulkCall, filter_given, is_meant
from duetime.scheduler.service.bulk.bulk_letters import MeantTasks, open_letters, tasks_to_replay
from duetime.scheduler.service.bulk.chain_moves import ChainMoves
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.scheduler.views import Standing, TaskFilter, TaskRecord, due_at

_OPEN: Final = tuple(state for state in State if state in OPEN)


class BulkTargets:
    """Finds the tasks of a call, and decides how the chains among them are moved."""

    def __init__(self, store: Store, planner: Planner, moves: ChainMoves) -> None:
        self._store = store
        self._planner = planner
        self._moves = moves

    def meant(self, call: BulkCall, decision: BulkDecision | None = None) -> MeantTasks:
        """Return the tasks of a call. Raises InvalidArgument where they are more than one call changes."""
        if call.task_ids:
            return self._replayable(call, self._store.batches.named(call.of_tenant, self._ids_meant(call)))
        of_letters = call.verb in {BulkVerb.REPLAY, BulkVerb.DISCARD}
        where = self._usual(call.where, of_letters=of_letters)
        found = self._store.batches.matching(call.of_tenant, where, MAX_TASKS_CHANGED + 1)
        if len(found) > MAX_TASKS_CHANGED:
            raise self._too_many(call, where, found[-1])
        if of_letters:
            letters = open_letters(self._store, call, found)
            return self._replayable(call, [each for each in found if each.task.id in letters])
        meant = [each for each in found if is_meant(each.task, call.verb, decision)]
        return MeantTasks([*meant, *self._ended_steps(call, meant)])

    def others(self, call: BulkCall, records: Sequence[TaskRecord]) -> str:
        """Say what has become of tasks that the filter matches but for their state; nothing where there are none."""
        meant, where = {each.task.id for each in records}, replace(call.where, states=(), standing=None)
        if call.task_ids or call.verb is BulkVerb.REPLAY:
            return ""
        found = self._store.batches.matching(call.of_tenant, where, MAX_TASKS_CHANGED)
        left = [each for each in found if each.task.id not in meant]
        held = {each.task.id for each in left if each.task.paused and each.run.state in OPEN}
        counts = Counter("paused" if each.task.id in held else each.run.state.value for each in left)
        if not left:
            return ""
        at = describe(max(each.task.updated_at for each in left), self._planner.zone or "UTC")
        standing = ", ".join(f"{count} {state}" for state, count in counts.most_common())
        are = "is" if len(left) == 1 else "are"
        return f", and of those that it matched there {are} {standing}, last changed {at}"

    @staticmethod
    def _usual(where: TaskFilter, *, of_letters: bool) -> TaskFilter:
        """Return the filter with the tasks that it means where it names no state."""
        if not of_letters:
            return replace(where, states=where.states or _OPEN)
        return where if where.states or where.standing else replace(where, standing=Standing.DEAD_LETTER)

    def _replayable(self, call: BulkCall, found: list[TaskRecord]) -> MeantTasks:
        """Return the tasks, of a replay with the runs that it would do again."""
        if call.verb is not BulkVerb.REPLAY:
            return MeantTasks(found)
        failed = self._store.dead_letters.failed_runs(call.of_tenant, [each.task.id for each in found])
        records = [replace(each, failed_run=failed.get(each.task.id)) for each in found]
        return tasks_to_replay(self._store, call, records)

    def _too_many(self, call: BulkCall, where: TaskFilter, following: TaskRecord) -> InvalidArgument:
        """Return the refusal of a call that means too many tasks, with a bound by which its first part is accepted.

        `following` is the task behind those that one call changes.
        """
        at = due_at(following.run).replace(microsecond=0)
        earlier = replace(where, before=at)
        part = self._store.batches.matching(call.of_tenant, earlier, MAX_TASKS_CHANGED + 1)
        name, value = filter_given(call.where)
        problem = f"more than {MAX_TASKS_CHANGED:,} tasks match" + (f" {name}={value!r}" if value else "")
        splits = 0 < len(part) <= MAX_TASKS_CHANGED
        return InvalidArgument(
            name,
            problem,
            accepted=f"a narrower filter, or parts by their time: one call changes {MAX_TASKS_CHANGED:,} at most",
            example=f"before={utc(at)!r}" if splits else "label='reports'",
        )

    def decided(self, call: BulkCall, decision: BulkDecision, now: datetime) -> BulkDecision:
        """Return a decision about many tasks by which each chain that is named keeps the distances of its steps."""
        to, moves = call.to, dict[str, Callable[[], ChainMove]]()
        if decision.verb is BulkVerb.REPLAY:
            steps = dict(chain.from_iterable(steps_to_rerun(found).items() for found in self.chains_of(call)))
            return replaying(decision, steps, now)
        if decision.verb is BulkVerb.PAUSE:
            chains = self.chains_of(call) if call.task_ids else self.recurring_chains(call)
            return with_later_generations(decision, chains)
        if decision.verb is not BulkVerb.MOVE or to is None:
            return decision
        for found in self.chains_of(call):
            move = partial(self._moves.to_time, found, to, found.chain.timezone, now)
            moves |= dict.fromkeys((step.record.task.id for step in found.steps), move)
        decision = move_chains(moves, decision, self._planner, now) if moves else decision
        return whole_chains(decision, self._steps_by_chain(call))

    def _steps_by_chain(self, call: BulkCall) -> list[list[TaskRecord]]:
        """Return the steps of each chain among the tasks of a call."""
        records, steps = {each.task.id: each for each in self.meant(call).records}, dict[str, list[TaskRecord]]()
        for task_id, other in self._store.batches.related(call.of_tenant, list(records)):
            if is_chain_id(other) and task_id in records:
                steps.setdefault(other, []).append(records[task_id])
        return list(steps.values())

    def _ids_meant(self, call: BulkCall) -> Sequence[str]:
        """Return the tasks that are named; of a chain the steps that the change is for, or all where it is for none.

        Raises Refused for the replay or the discard of a chain of which no step has failed.
        """
        steps = {found.chain.id: _steps_meant(found, call.verb) or found.steps for found in self.chains_of(call)}
        ids = (
            [step.record.task.id for step in steps[task_id]] if task_id in steps else [task_id]
            for task_id in call.task_ids
        )
        return list(dict.fromkeys(chain.from_iterable(ids)))

    def chains_of(self, call: BulkCall) -> list[ChainRecord]:
        """Return the chains that a call names. Raises TaskNotFound."""
        try:
            return [self._store.chains.get(call.of_tenant, each) for each in call.task_ids if is_chain_id(each)]
        except TaskNotFound as missing:
            raise TaskNotFound(missing.task_id, missing.closest, argument="task_ids") from None

    def recurring_chains(self, call: BulkCall) -> list[ChainRecord]:
        """Return the chains that recur of which the tasks of a call are steps, however these are meant."""
        return self._recurring(call.of_tenant, self.meant(call).records)

    def _recurring(self, tenant: str, records: Sequence[TaskRecord]) -> list[ChainRecord]:
        names = self._store.chains.names(tenant, [each.task.id for each in records])
        ids = dict.fromkeys(name.id for name in names.values() if name.repeats)
        return [self._store.chains.get(tenant, each) for each in ids]

    def _ended_steps(self, call: BulkCall, meant: Sequence[TaskRecord]) -> list[TaskRecord]:
        """Return the ended steps of the chains whose open steps are all paused, or resumed, by a call with a filter."""
        pauses = call.verb is BulkVerb.PAUSE
        if not (pauses or call.verb is BulkVerb.RESUME):
            return []
        ids, found = {each.task.id for each in meant}, list[TaskRecord]()
        for of_chain in self._recurring(call.of_tenant, meant):
            left = [step.record.task for step in of_chain.steps if step.record.run.state in OPEN]
            if all(task.id in ids or task.paused == pauses for task in left):
                found += [step.record for step in steps_to_come(of_chain) if step.record.task.paused != pauses]
        return found


def _steps_meant(found: ChainRecord, verb: BulkVerb) -> Sequence[StepRecord]:
    """Return the steps that a change is for: those that are open, that run what failed again, or failed by themselves.

    A chain that recurs runs steps again that have ended: a pause is for these too, a resume for those that are paused.
    """
    if verb is BulkVerb.PAUSE:
        ended = steps_to_come(found)
        return [step for step in found.steps if step.record.run.state in OPEN or step in ended]
    if verb not in {BulkVerb.REPLAY, BulkVerb.DISCARD}:
        held = verb is BulkVerb.RESUME
        return [step for step in found.steps if step.record.run.state in OPEN or (held and step.record.task.paused)]
    again = steps_to_rerun(found)
    failed = [step for step in found.steps if step.record.task.id in again]
    if verb is BulkVerb.DISCARD:
        failed = root_failures(found) or root_failures(last_generation(found))
    if not failed:
        raise none_to_rerun(found, argument="task_ids")
    return failed
