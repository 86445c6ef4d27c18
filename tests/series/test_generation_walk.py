"""Generations of chains overlap in every way that a policy allows, at random, and agree with the reference.

Groups of chains on one clock, each with steps, a policy and operations of its own; a few go over PostgreSQL. Steps may
ask in each generation, attempts wait for events, and failed ones run again next to the newest one. A pause holds all of
a chain. `SERIES_SEED`, `GENERATION_GROUPS` and `GENERATION_GROUPS_ON_POSTGRES` ask for other and more walks. On a
difference the chain's own steps are printed. `mutations.py` shows which defects are found.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.outcomes import Done, Failed, Outcome, Retry, Wait
from duetime.scheduler.rules.settlement import refresh, settle
from duetime.scheduler.run_records import Claim, Verdict
from duetime.scheduler.store import open_store
from duetime.scheduler.store.schema.tables.chains import chains
from duetime.scheduler.task import Run, State
from sqlalchemy import bindparam, select

from tests.builders import NOON, Clock
from tests.series.generations_model import HOUR, PATIENCE, PAUSE_BETWEEN_ATTEMPTS, GenerationsModel, Plan
from tests.series.house import RETRY, House, traced
from tests.series.test_series_walk import SEED

GROUP_COUNT = int(os.environ.get("GENERATION_GROUPS", "2"))
POSTGRES_GROUP_COUNT = int(os.environ.get("GENERATION_GROUPS_ON_POSTGRES", "1"))
CHAIN_COUNT, STEP_COUNT = 17, 20
POSTGRES_CHAIN_COUNT, POSTGRES_STEP_COUNT = 6, 12
SPANS = tuple(timedelta(minutes=minutes) for minutes in (0, 10, 30, 60, 150))
OVERLAPS = ("skip", "buffer_one", "buffer_all", "cancel_other", "allow_all", "allow_all")
OUTCOMES: dict[str, Outcome] = {
    "done": Done("done"),
    "failed": Failed("it cannot succeed"),
    "retry": Retry("no answer", after=PAUSE_BETWEEN_ATTEMPTS),
}
_DUE = select(chains.c.number, chains.c.due_at).where(chains.c.id == bindparam("of"))


@dataclass(eq=False)
class Walk:
    """One chain, its reference, and what happened to both."""

    house: House
    draw: random.Random
    chain_id: str = ""
    model: GenerationsModel = field(init=False)
    held: list[tuple[Claim, str]] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def schedule(self) -> None:
        plans = list[Plan]()
        for number in range(self.draw.randint(1, 4)):
            above = self.draw.sample(plans, min(len(plans), self.draw.choice([0, 1, 1, 2])))
            policy = self.draw.choice(["fail", "fail", "skip", "run_anyway"]) if above else "fail"
            asks = bool(plans) and self.draw.random() < 0.3
            plans.append(Plan(f"s{number}", tuple(sorted(each.name for each in above)), policy, asks))
        overlap = self.draw.choice(OVERLAPS)
        steps: list[Any] = [
            {"name": each.name}
            | ({"after": list(each.after), "after_failure": each.policy} if each.after else {})
            | ({"approval": {"question": f"{each.name}?"}} if each.asks else {})
            for each in plans
        ]
        self.tell(f"schedule {steps} {overlap}")
        view = self.house.scheduler.schedule(
            "Report", steps=steps, retry=RETRY, repeat="every hour at :00", repeat_policy={"overlap": overlap}
        )
        assert view.chain
        self.chain_id = view.record.task.id
        self.model = GenerationsModel(tuple(plans), view.record.run.scheduled_for, overlap)
        self.model.task_ids = {step.name: step.task_id for step in view.chain.steps}
        self.compare()

    def operate(self) -> None:
        """Change, pause, answer or cancel the chain, send what it waits for, or run again what failed, at times."""
        operations: Sequence[tuple[Callable[[], None], float]] = (
            (lambda: None, 6), (self.change_policy, 2), (self.cancel_and_undo, 4), (self.replay, 5), (self.answer, 4),
            (self.pause, 8 if self.model.paused else 1), (self.send, 4),
        )  # fmt: skip
        self.draw.choices([each for each, _ in operations], [weight for _, weight in operations])[0]()

    def change_policy(self) -> None:
        overlap = self.draw.choice(OVERLAPS)
        self.tell(f"overlap is {overlap}")
        self.house.scheduler.reschedule(self.chain_id, repeat_policy={"overlap": overlap})
        self.model.overlap = overlap

    def pause(self) -> None:
        """Pause all of the chain, or resume it."""
        if self.model.current.ends_series:
            return
        hold = not self.model.paused
        self.tell("pause" if hold else "resume")
        self.house.scheduler.reschedule(self.chain_id, pause=hold)
        self.model.paused = hold
        self.compare()

    def send(self) -> None:
        """Send the event for which an attempt waits, in one generation."""
        now = self.house.clock()
        found = [(each.number, name, run) for each in self.model.generations for name, run in each.runs.items()]
        waiting = [
            (name, number) for number, name, run in found if run.state == "suspended" and run.until and run.until > now
        ]
        if waiting:
            name, number = self.draw.choice(waiting)
            self.tell(f"send the event of {name} of {number}")
            assert self.house.scheduler.signals.send(f"go-{self.model.of(number).runs[name].run_id}").freed == 1
            self.model.send(name, number, now)
            self.compare()

    def cancel_and_undo(self) -> None:
        """Cancel a chain and take that back, unless a step has begun and waits; what runs is to stop.

        A step comes back with its newest run: where that does not, older ones of it stay cancelled.
        """
        runs = [run for each in self.model.generations for run in each.runs.values()]
        if (
            any(run.stop or run.failures or run.state == "suspended" for run in runs if run.is_open)
            or self.model.current.ends_series
        ):
            return
        newest = self.model.current.runs
        waiting = {run.plan.name for run in runs if run.is_open and run.state != "running"}
        if not waiting or any(newest[name].state == "running" or not newest[name].is_open for name in waiting):
            return
        self.tell("cancel, and undo")
        view, was = self.house.scheduler.cancel(self.chain_id), deepcopy(self.model)
        self.model.cancel(self.house.clock())
        self.compare()
        self.house.scheduler.act(self.chain_id, "undo", undo=view.undo)
        for run in [run for each in was.generations for run in each.runs.values() if run.state == "running"]:
            run.stop = run.by_user = True
        self.model = was
        self.compare()

    def answer(self) -> None:
        """Answer for a step in one generation."""
        asked = [(name, each.number) for each in self.model.generations for name, run in each.runs.items() if run.asked]
        if not asked:
            return
        (name, number), yes = self.draw.choice(asked), self.draw.random() < 0.7
        task_id = self.model.task_ids[name]
        runs = [run for run in self.house.runs_of_each([task_id])[task_id] if run.number == number]
        run_id = max(runs, key=lambda run: (run.scheduled_for, run.generation)).id
        self.tell(f"{name} of {number}: {'yes' if yes else 'no'}")
        decide = self.house.scheduler.approve if yes else self.house.scheduler.reject
        decide(run_id)
        self.model.answer(name, number, yes=yes, now=self.house.clock())
        self.compare()

    def replay(self) -> None:
        """Replay the dead letter of an earlier generation; what runs in the newest one cannot run at the same time."""
        newest = self.model.current
        busy = {name for name, run in newest.runs.items() if run.state == "running" or run.by_user}
        earlier = [
            run_id
            for run_id, (name, number) in self.model.letters.items()
            if number < newest.number and name not in busy
        ]
        if not earlier or newest.ends_series or self.model.paused:
            return
        run_id = self.draw.choice(earlier)
        name, number = self.model.letters[run_id]
        self.tell(f"replay {name} of {number}")
        self.house.scheduler.letters.replay([run_id])
        self.model.replay(run_id, self.house.clock())
        self.compare()

    # -- what time and workers bring

    def start(self, claims: Sequence[Claim]) -> None:
        names = {task_id: name for name, task_id in self.model.task_ids.items()}
        started = {(names[claim.task.id], claim.run.number): claim for claim in claims}
        assert started.keys() == self.model.startable(self.house.clock()), "other steps started than should"
        for (name, number), claim in sorted(started.items(), key=lambda each: each[0]):
            self.model.start(name, number, claim.run.id)
            self.held.append((claim, name))
            self.tell(f"{name} of {number} started")

    def end(self, chance: float) -> None:
        for claim, name in list(self.held):
            if self.draw.random() < chance:
                self.held.remove((claim, name))
                how = self.draw.choices(["done", "failed", "retry", "wait"], [6, 2, 1, 1])[0] if chance < 1 else "done"
                self.tell(f"{name} of {claim.run.number} ends: {how}")
                waits = how == "wait"
                self.finish(claim, Wait(event=f"go-{claim.run.id}", timeout=PATIENCE) if waits else OUTCOMES[how])
                self.model.finish(name, claim.run.number, how, self.house.clock())
                self.compare()

    def finish(self, claim: Claim, outcome: Outcome) -> None:
        if self.house.store.claims.settle([settle(claim, outcome, now=self.house.clock(), jitter=0.0)]) == [
            Verdict.SETTLED
        ]:
            self.house.release(claim)
        else:  # the task was changed since the claim
            self.finish(refresh(claim, self.house.store.tasks.get(claim.run.tenant, claim.run.task_id)), outcome)

    # -- what holds after each step

    def compare(self) -> None:
        found = self.house.runs_of_each(list(self.model.task_ids.values()))
        due = self.house.store._database.read(lambda connection: connection.execute(_DUE, {"of": self.chain_id}).one())
        assert tuple(due) == (self.model.current.number, self.model.current.due)
        for name, task_id in self.model.task_ids.items():
            assert self.seen(found[task_id]) == self.expected(name), name
        for plan in [each for each in self.model.plans if not each.after]:
            runs = found[self.model.task_ids[plan.name]]
            assert sorted(run.scheduled_for for run in runs if is_left_out(run)) == self.model.left_out, plan.name

    def seen(self, found: Sequence[Run]) -> dict[int, str]:
        """Return the state of a step in each generation; what is ready is due."""
        runs = sorted(found, key=lambda run: (run.number, run.scheduled_for, run.generation))
        return {run.number: str(run.state).replace("ready", "scheduled") for run in runs if not is_left_out(run)}

    def expected(self, name: str) -> dict[int, str]:
        return {each.number: each.runs[name].state for each in self.model.generations}

    def tell(self, what: str) -> None:
        self.told.append(f"{self.house.clock():%d %b %H:%M:%S} {what}")


@dataclass
class Group:
    """Chains that go through the same time, each in its own way."""

    house: House
    walks: Sequence[Walk]
    draw: random.Random

    def run(self, steps: int) -> None:
        for walk in self.walks:
            walk.schedule()
        for _ in range(steps):
            for walk in self.walks:
                with traced(walk.told):
                    walk.operate()
            self.fire()
            for walk in self.walks:
                with traced(walk.told):
                    walk.end(0.5)
            self.advance()
        self.finish()

    def advance(self) -> None:
        to = self.house.clock() + self.draw.choice(SPANS)
        while (due := self.house.next_wake()) is not None and due <= to:
            self.house.clock.at = max(due, self.house.clock())
            self.fire()
        self.house.clock.at = to
        self.fire()

    def fire(self) -> None:
        self.house.dispatch()
        assert self.house.store.dependencies.repair(limit=99) == 0, "an end was not followed"
        claims: dict[str, list[Claim]] = {}
        owners = {task_id: walk.chain_id for walk in self.walks for task_id in walk.model.task_ids.values()}
        for claim in self.house.start():
            claims.setdefault(owners[claim.task.id], []).append(claim)
        for walk in self.walks:
            with traced(walk.told):
                walk.model.tick(self.house.clock())
                walk.start(claims.get(walk.chain_id, []))
                walk.compare()
        known = {run_id for walk in self.walks for run_id in walk.model.letters}
        assert self.house.open_letters() == known, "other dead letters are open"

    def finish(self) -> None:
        """Cancel every chain: what runs ends, and nothing is left that waits."""
        for walk in self.walks:
            with traced(walk.told):
                walk.tell("cancel")
                self.house.scheduler.cancel(walk.chain_id)
                walk.model.cancel(self.house.clock())
                walk.end(1.0)
                walk.compare()
        self.house.clock.at += 3 * HOUR
        self.fire()


def is_left_out(run: Run) -> bool:
    """Whether a run stands for a generation that did not run."""
    return run.state is State.SKIPPED and not (run.summary or run.error)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    clock = Clock(NOON)
    store = open_store(f"sqlite:///{tmp_path}/duetime.db", clock=clock, synchronous="OFF")
    yield House(store, clock)
    store.close()


@pytest.mark.parametrize("number", range(GROUP_COUNT), ids=lambda number: f"seed {SEED}, group {number}")
def test_generations_agree_with_the_reference_whatever_is_done_to_them(house: House, number: int) -> None:
    walks = [Walk(house, random.Random(f"{SEED}/generations/{number}/{chain}")) for chain in range(CHAIN_COUNT)]
    Group(house, walks, random.Random(f"{SEED}/generations/{number}")).run(STEP_COUNT)


@pytest.mark.postgres
@pytest.mark.parametrize("number", range(POSTGRES_GROUP_COUNT), ids=lambda number: f"seed {SEED}, group {number}")
def test_generations_agree_with_the_reference_on_postgresql_too(migrated_postgres_url: str, number: int) -> None:
    clock = Clock(NOON)
    store = open_store(migrated_postgres_url, clock=clock)
    house = House(store, clock)
    seed = f"{SEED}/generations/postgres/{number}"
    walks = [Walk(house, random.Random(f"{seed}/{chain}")) for chain in range(POSTGRES_CHAIN_COUNT)]
    Group(house, walks, random.Random(seed)).run(POSTGRES_STEP_COUNT)
    store.close()
