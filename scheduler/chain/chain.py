"""A chain: tasks that one call made, each a step with a name, in the order in which they may run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from duetime.scheduler.records import Added, NewTask
from duetime.scheduler.task import Run, State, Task
from duetime.scheduler.views import TaskRecord


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

SPAWNED_MARK: Final = "/"
"""Stands between the name of a step and that of a task which its run spawned."""

MAX_NAMED_STEPS: Final = 3
LOST: Final = frozenset({State.FAILED, State.EXPIRED})


def is_spawned(name: str) -> bool:
    """Whether a step was spawned by the run of another one: its name begins with that of the other."""
    return SPAWNED_MARK in name


def chain_state(states: Sequence[State]) -> State:
    """Return the state of a chain: open while a step is open, then failed if a step has failed."""
    return next(state for state in _OPEN_FIRST if state in states)


def front_steps(found: ChainRecord) -> list[StepRecord]:
    """Return the open steps that wait for no other open step."""
    open_steps = [step for step in found.steps if step.record.run.ended_at is None]
    names = {step.name for step in open_steps}
    return [step for step in open_steps if names.isdisjoint(step.after)]


def repeated_steps(found: ChainRecord) -> list[StepRecord]:
    """Return the steps of a generation in progress that run again in the next one."""
    runs = [step.record.run for step in found.steps]
    was_cancelled = any(run.state is State.CANCELLED and not run.gives_way for run in runs)
    if found.chain.repeat is None or was_cancelled or all(run.ended_at for run in runs):
        return []
    return [step for step in found.steps if not is_spawned(step.name)]


def steps_to_come(found: ChainRecord) -> list[StepRecord]:
    """Return the steps of a generation in progress that have ended, and run again in the next one."""
    return [step for step in repeated_steps(found) if step.record.run.ended_at]


def last_steps(found: ChainRecord) -> list[StepRecord]:
    """Return the steps after which no step comes, without the tasks that runs spawned."""
    steps = [step for step in found.steps if not is_spawned(step.name)]
    followed = {name for step in steps for name in step.after}
    return [step for step in steps if step.name not in followed]


def root_failures(found: ChainRecord) -> list[StepRecord]:
    """Return the steps that failed by themselves, not because of what they come after."""
    runs = {step.name: step.record.run for step in found.steps}
    lost = {name for name, run in runs.items() if run.ended_at and run.state is not State.SUCCEEDED}
    failed = (step for step in found.steps if step.record.run.state in LOST)
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
    ended = {step.name for step in of_it}
    if any(side.number == number for step in found.steps if step.name not in ended for side in step.record.side_runs):
        return replace(found, steps=())
    return replace(found, steps=tuple(of_it))


def has_begun(run: Run) -> bool:
    """Whether a side run of a step is part of a generation in progress: it has started, or waits for its turn."""
    return run.started_at is not None or run.state is State.WAITING


def open_generations(found: ChainRecord) -> list[str]:
    """Say which generations continue next to the current one, each with its open steps."""
    steps = dict[int, list[str]]()
    for step in found.steps:
        for run in filter(has_begun, step.record.side_runs):
            steps.setdefault(run.number, []).append(f"{step.name} ({run.state})")
    return [f"generation {number} continues: {', '.join(names)}" for number, names in sorted(steps.items())]


def failures_in_words(found: ChainRecord) -> str:
    """Say which steps failed by themselves, each with its error, and how many failed; empty where none did."""
    failed = [step for step in found.steps if step.record.run.state in LOST]
    first = root_failures(found)[:MAX_NAMED_STEPS]
    named = "; ".join(f"{step.name} {step.record.run.state}: {step.record.run.error}" for step in first)
    return named + (f" ({len(failed)} of {len(found.steps)} steps failed)" if len(failed) > len(first) else "")


def name_steps(steps: Sequence[StepRecord], most: int = MAX_NAMED_STEPS) -> str:
    """Name the first steps, each with the id of its task, and say how many more there are."""
    more = f" and {len(steps) - most} more" if len(steps) > most else ""
    return ", ".join(f"{step.name} ({step.record.task.id})" for step in steps[:most]) + more
