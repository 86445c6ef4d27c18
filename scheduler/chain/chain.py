"""A chain: tasks that one call made, each a step with a name, in the order in which they may run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from duetime.scheduler.chain.judgement import why_left_out
from duetime.scheduler.chain.result_schema import mismatch
from duetime.scheduler.records import Added, NewTask
from duetime.scheduler.task import Run, State, Task
from duetime.scheduler.views import ChainStep, ChainView, TaskRecord, TaskView, due_at

CHAIN_ACTION: Final = "chain"
"""Stands for the action in the record of a chain, which no handler runs."""


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain as it is stored; one that recurs with its rule, and the time and number of its current generation.

    `generation` counts all of them, `number` those that are not left out.
    """

    id: str
    tenant: str
    owner: str
    title: str
    timezone: str
    created_at: datetime
    repeat: str | None = None
    anchor: datetime | None = None
    until: datetime | None = None
    max_runs: int | None = None
    due_at: datetime | None = None
    number: int = 1
    generation: int = 1

    def as_series(self, step: Task, *, counts: bool = True, opened: datetime | None = None) -> tuple[Task, Run]:
        """Return a chain that recurs as a series with a step's terms, and its current generation as a run of that.

        A generation that was left out `counts` as none of `max_runs`. It may start since it was `opened`.
        """
        assert self.due_at is not None
        rule = {"repeat": self.repeat, "anchor": self.anchor, "until": self.until, "max_runs": self.max_runs}
        series = replace(step, **rule, timezone=self.timezone, deadline_after=None)  # type: ignore[arg-type]  # of a chain
        number = self.number if counts else self.number - 1
        run = Run(self.id, self.id, self.tenant, self.due_at, State.SUCCEEDED, number=number, first_ready_at=opened)
        return series, run


@dataclass(frozen=True, slots=True)
class NewChain:
    """A chain to be stored: its tasks by the names of the steps, upstreams first; the first has the call's key."""

    chain: Chain
    steps: Mapping[str, NewTask]


class StepRecord(NamedTuple):
    """A step as it is stored, the names of the steps that it comes after, and what their results have to meet."""

    name: str
    record: TaskRecord
    after: tuple[str, ...] = ()
    schemas: Mapping[str, Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ChainRecord:
    """A chain as stored, with its steps in their order."""

    chain: Chain
    steps: tuple[StepRecord, ...]


class ChainAdded(NamedTuple):
    """The stored chain, and the answers for its tasks; none where an earlier call had made it."""

    chain_id: str
    added: tuple[Added, ...] = ()


_OPEN_FIRST: Final = (
    State.RUNNING,
    State.READY,
    State.RETRYING,
    State.SUSPENDED,
    State.SCHEDULED,
    State.WAITING,
    State.FAILED,
    State.EXPIRED,
    State.CANCELLED,
    State.SUCCEEDED,
    State.SKIPPED,
)
"""States by precedence: a chain is in the first of these that any of its steps is in."""

_URGENCY: Final = ("deadline", "deadline_after", "deadline_type", "penalty")
MAX_NAMED_STEPS: Final = 3
_LOST: Final = frozenset({State.FAILED, State.EXPIRED})


def is_spawned(name: str) -> bool:
    """Whether a step was spawned by the run of another one: its name begins with that of the other."""
    return "/" in name


def chain_state(states: Sequence[State]) -> State:
    """Return the state of a chain: open while a step is open, then failed if a step has failed."""
    return next(state for state in _OPEN_FIRST if state in states)


def chain_of(found: ChainRecord, step: str | None = None) -> ChainView:
    """Return the chain with the states of its steps, to be shown with one of them or alone."""
    return ChainView(found.chain.id, found.chain.title, tuple(map(_shown, found.steps)), step)


def _shown(step: StepRecord) -> ChainStep:
    task, run = step.record.task, step.record.run
    paused = task.paused and run.ended_at is None
    return ChainStep(
        step.name,
        task.id,
        task.title,
        task.action,
        run.state,
        run.wake_at or run.scheduled_for,
        step.after,
        run.error if run.state in _LOST else None,
        run.unverified,
        paused,
        task.paused_until if paused else None,
    )


def view_of_chain(
    found: ChainRecord, now: datetime, *, created: bool | None = None, warnings: Sequence[str] = ()
) -> TaskView:
    """Return a chain as a task is shown: due with its next step, ended with its last one."""
    runs = [step.record.run for step in found.steps]
    state = chain_state([run.state for run in runs])
    open_runs = [run for run in runs if run.ended_at is None]
    next_runs = [step.record.run for step in front_steps(found)]
    due = min(due_at(run) for run in next_runs or runs)
    ended = None if open_runs else max(run.ended_at for run in runs if run.ended_at)
    started = min((run.started_at for run in runs if run.started_at), default=None)
    run = Run(found.chain.id, found.chain.id, found.chain.tenant, due, state, started_at=started, ended_at=ended)
    stopping = bool(open_runs) and all(each.cancel_requested and not each.gives_way for each in open_runs)
    run = replace(
        run,
        number=found.chain.number,
        generation=found.chain.generation,
        occurrence=found.chain.due_at,
        cancel_requested=stopping,
    )
    run = replace(run, failed_before=runs[0].failed_before, error=why_left_out(runs, state), **_deadline_of_all(found))
    record = TaskRecord(_task(found), run, _outcome(last_generation(found)))
    return TaskView(record, now, created=created, warnings=tuple(warnings), chain=chain_of(found))


def front_steps(found: ChainRecord) -> list[StepRecord]:
    """Return the open steps that wait for no other open step."""
    open_steps = [step for step in found.steps if step.record.run.ended_at is None]
    names = {step.name for step in open_steps}
    return [step for step in open_steps if names.isdisjoint(step.after)]


def last_steps(found: ChainRecord) -> list[StepRecord]:
    """Return the steps after which no step comes, without the tasks that runs spawned."""
    steps = [step for step in found.steps if not is_spawned(step.name)]
    followed = {name for step in steps for name in step.after}
    return [step for step in steps if step.name not in followed]


def root_failures(found: ChainRecord) -> list[StepRecord]:
    """Return the steps that failed by themselves, not because of what they come after."""
    runs = {step.name: step.record.run for step in found.steps}
    lost = {name for name, run in runs.items() if run.ended_at and run.state is not State.SUCCEEDED}
    failed = (step for step in found.steps if step.record.run.state in _LOST)
    return [step for step in failed if step.record.run.started_at or lost.isdisjoint(step.after)]


def last_generation(found: ChainRecord) -> ChainRecord:
    """Return a chain with the last runs of its steps; without steps unless another generation is still to come."""
    runs = {step.name: step.record.last_run for step in found.steps}
    ran = {name: run for name, run in runs.items() if run is not None}
    begun = any(step.record.run.started_at or step.record.run.ended_at for step in found.steps)
    number = max((run.number for run in ran.values()), default=0)
    if begun or number == 0 or found.chain.number == 1:
        return replace(found, steps=())
    last = ((step, ran[step.name]) for step in found.steps if step.name in ran)
    of_it = [step._replace(record=replace(step.record, run=run)) for step, run in last if run.number == number]
    return replace(found, steps=tuple(of_it))


def _outcome(last: ChainRecord) -> Run | None:
    """Return how the last generation ended, as the run of a task is shown."""
    runs = [step.record.run for step in last.steps]
    if not runs:
        return None
    chain, due = last.chain, min(run.scheduled_for for run in runs)
    ended = max(run.ended_at for run in runs if run.ended_at)
    found = Run(chain.id, chain.id, chain.tenant, due, chain_state([run.state for run in runs]), ended_at=ended)
    return replace(found, number=runs[0].number, current=False, error=failures_in_words(last) or None)


def failures_in_words(found: ChainRecord) -> str:
    """Say which steps failed by themselves, each with its error, and how many failed; empty where none did."""
    failed = [step for step in found.steps if step.record.run.state in _LOST]
    first = root_failures(found)[:MAX_NAMED_STEPS]
    named = "; ".join(f"{step.name} {step.record.run.state}: {step.record.run.error}" for step in first)
    return named + (f" ({len(failed)} of {len(found.steps)} steps failed)" if len(failed) > len(first) else "")


def steps_to_rerun(found: ChainRecord) -> dict[str, Run | None]:
    """Return the tasks that run again so that what failed continues, each with the run that failed itself, if it did.

    They are of the last generation where nothing of this one failed. A step that failed because of an invalid result
    continues once the step that gave it has run again.
    """
    of = found if root_failures(found) else last_generation(found)
    steps, again = {step.name: step for step in of.steps}, dict[str, Run | None]()
    for step in root_failures(of):
        before = [steps[name] for name in step.after if name in steps and _is_invalid(steps[name], step)]
        again |= {each.record.task.id: None if before else each.record.run for each in before or [step]}
    return again


def _is_invalid(before: StepRecord, step: StepRecord) -> bool:
    """Whether the result of the step before kept a step from its start."""
    schema, run = step.schemas.get(before.name), before.record.run
    if step.record.run.started_at or schema is None or run.state is not State.SUCCEEDED:
        return False
    return mismatch(schema, run.result) is not None


def name_steps(steps: Sequence[StepRecord], most: int = MAX_NAMED_STEPS) -> str:
    """Name the first steps, each with the id of its task, and say how many more there are."""
    more = f" and {len(steps) - most} more" if len(steps) > most else ""
    return ", ".join(f"{step.name} ({step.record.task.id})" for step in steps[:most]) + more


def _asked_before_all(found: ChainRecord) -> Mapping[str, Any] | None:
    """Return the approval that all first steps share; None where they differ or ask nothing."""
    approvals = [step.record.task.asks for step in found.steps if not step.after and not is_spawned(step.name)]
    return approvals[0] if approvals and all(each == approvals[0] for each in approvals) else None


def _task(found: ChainRecord) -> Task:
    """Return the chain as a task, with the fields that it shares with its first step."""
    chain, first = found.chain, found.steps[0].record.task
    next_ones = [step.record.task for step in front_steps(found)]
    paused = bool(next_ones) and all(task.paused for task in next_ones)
    return replace(
        first,
        id=chain.id,
        owner=chain.owner,
        title=chain.title,
        action=CHAIN_ACTION,
        payload={},
        timezone=chain.timezone,
        estimate=None,
        needs={},
        **_urgency_of_all(found),
        revision=1,
        created_at=chain.created_at,
        asks=_asked_before_all(found),
        repeat=chain.repeat,
        anchor=chain.anchor or first.anchor,
        until=chain.until,
        max_runs=chain.max_runs,
        paused=paused,
        paused_until=min((task.paused_until for task in next_ones if paused and task.paused_until), default=None),
        expect=_expected_of_all(found),
    )


def _expected_of_all(found: ChainRecord) -> Mapping[str, Any]:
    """Return what is expected of a chain: the contract of its last steps, where it is the same for all."""
    last = [step.record.task.expect for step in last_steps(found)]
    return last[0] if last and all(each == last[0] for each in last) else {}


def _urgency_of_all(found: ChainRecord) -> dict[str, Any]:
    """Return the deadline of a chain as its task has it: that of its last steps, where it is the same for all."""
    last = [{name: getattr(step.record.task, name) for name in _URGENCY} for step in last_steps(found)]
    return last[0] if last and all(each == last[0] for each in last) else {"deadline": None, "deadline_after": None}


def _deadline_of_all(found: ChainRecord) -> dict[str, Any]:
    """Return when the last of its last steps must have ended, once all of them have a deadline."""
    last = [step.record.run for step in last_steps(found)]
    if not _urgency_of_all(found)["deadline"] or any(run.deadline is None for run in last):
        return {}
    run = max(last, key=lambda each: each.deadline or found.chain.created_at)
    return {"deadline": run.deadline, "drop_at": run.drop_at}
