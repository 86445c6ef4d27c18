"""A chain on the hour, on a real store, whose generations run next to each other."""

from __future__ import annotations

from typing import Any

from duetime.scheduler.request import StepArguments
from duetime.scheduler.run_records import Claim
from duetime.scheduler.task import Json, Run, State

from tests.builders import runs_of
from tests.contracts.store.desk import Desk, at

STEPS: list[StepArguments] = [{"name": "fetch"}, {"name": "load", "after": ["fetch"]}]


class Hourly:
    """A chain on the hour, from 9:00 on, whose generations do not wait for one another."""

    def __init__(self, desk: Desk, steps: list[StepArguments] = STEPS, **given: Any) -> None:
        self.desk = desk
        policy = {"overlap": "allow_all", **given.pop("policy", {})}
        view = desk.scheduler.schedule("Report", steps=steps, repeat="every hour at :00", repeat_policy=policy, **given)
        assert view.chain
        self.id = view.chain.id
        self.steps = {step.name: step.task_id for step in view.chain.steps}

    def overtaken(self, hour: int, minute: int = 0) -> list[Claim]:
        """Let the timer look at a time, and start what is due then, ordered by step."""
        self.desk.clock.at = at(hour, minute)
        while self.desk.store.series.overtake(limit=9).tasks:
            pass
        return sorted(self.desk.start(hour, minute), key=lambda claim: claim.task.title)

    def runs(self, name: str) -> dict[int, State]:
        """Return the states of the runs of a step, by the numbers of their generations."""
        found = sorted(runs_of(self.desk.store, self.steps[name]), key=_place)
        return {run.number: run.state for run in found if run.state is not State.SKIPPED}

    def inputs(self, claim: Claim) -> dict[str, Json]:
        return dict(self.desk.store.dependencies.results("local", claim.task.id, claim.run))


def _place(run: Run) -> tuple[object, int]:
    return run.scheduled_for, run.generation
