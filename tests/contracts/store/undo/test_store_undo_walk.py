"""Any change of tasks and chains that wait and ask, taken back at once, leaves what is stored as it was.

Each walk schedules tasks and chains, once or each hour, with events, questions and deadlines. It lets time pass, events
come and handlers end. Each change on the way that can be undone is undone at once. Then the task, its run and what that
waits for have to be equal to what they were, but for the revision and its time. There are 7 walks
on SQLite and 2 on PostgreSQL. `UNDO_WALKS=500` asks for so many on each, `WALK_FIRST_SEED` for others.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any, Final

from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Failed, Outcome, Retry, Wait
from duetime.scheduler.rules.settlement import StoppedByRequest, with_consequences
from duetime.scheduler.run_records import Claim, Start
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskView

from tests.builders import LEASE, Clock
from tests.contracts.store.desk import MORNING, Desk
from tests.search import walks

ASKED: Final = os.environ.get("UNDO_WALKS")
FIRST_SEED: Final = int(os.environ.get("WALK_FIRST_SEED", "0"))
SEEDS: Final = range(FIRST_SEED, FIRST_SEED + int(ASKED or "7"))
SEEDS_ON_POSTGRES: Final = SEEDS if ASKED else SEEDS[:2]
STEPS_COUNT: Final = 25
MAX_PASSES: Final = 40
TENANT: Final = "local"
GO: Final = "go"
STAYS: Final = "an undo does not bring back"
"""The note of a cancel on steps that had begun."""

SPAN: Final = timedelta(minutes=20)
_OF_RUN: Final = (
    *("scheduled_for", "deadline", "drop_at", "slot", "number", "missed", "occurrence"),
    *("checkpoint", "failures", "error", "summary"),
)
_IN_LINE: Final = (State.SCHEDULED, State.READY)

Make = Callable[[random.Random], dict[str, Any]]


def wait_of(draw: random.Random) -> dict[str, Any]:
    lot = draw.choice(["expire", "skip", "run"])
    return {"event": GO, "timeout": draw.choice(["10 min", "2 hours"]), "on_timeout": lot}


def waits_of(draw: random.Random, *, likely: float) -> dict[str, Any]:
    """Draw what a task waits for, and its deadline."""
    given: dict[str, Any] = {}
    if draw.random() < likely:
        given["wait_for"] = wait_of(draw)
    if draw.random() < likely:
        given["approval"] = {"question": "Go?", "by": draw.choice(["30 min", "3 hours"])}
    if draw.random() < likely:
        given |= {"deadline": "1 hour", "deadline_type": "hard"}
    return given


def chain_of(draw: random.Random) -> dict[str, Any]:
    first, *others = ("a", "b", "c")[: draw.choice([2, 3])]
    steps = [{"name": first, **waits_of(draw, likely=0.3)}]
    for name in others:
        lot = draw.choice(["fail", "skip", "run_anyway"])
        after = [draw.choice(steps)["name"]]
        steps.append({"name": name, "after": after, "after_failure": lot, **waits_of(draw, likely=0.35)})
    return {"steps": steps, **draw.choice([{"repeat": "every hour at :00"}, {"when": "in 5 minutes"}])}


def task_of(draw: random.Random) -> dict[str, Any]:
    return {"when": draw.choice(["in 5 minutes", "in 1 hour"]), **waits_of(draw, likely=0.4)}


CHANGES: dict[str, Make] = {
    "when": lambda draw: {"when": draw.choice(["in 10 minutes", "in 2 hours", "now"])},
    "title": lambda _: {"title": "Other"},
    "pause": lambda _: {"pause": True},
    "deadline": lambda draw: {"deadline": draw.choice(["2 hours", "none"])},
    "wait_for": lambda draw: {"wait_for": wait_of(draw)},
    "no event": lambda _: {"remove": ["wait_for"]},
    "no upstream": lambda _: {"remove": ["after"]},
    "approval": lambda _: {"approval": True},
}
ACTIONS: Final = ("run_now", "snooze", "skip_next", "approve", "reject", "cancel")
ENDS: tuple[Outcome, ...] = (Done("ok"), Done("ok"), Failed("no"), Retry("again"), Wait(event=GO, timeout=SPAN))


@dataclass
class Walk:
    """Tasks and chains in a store, and claims that have not ended."""

    desk: Desk
    draw: random.Random
    made: list[str] = field(default_factory=list)
    held: list[Claim] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def schedule(self) -> None:
        given = self.draw.choice([chain_of, chain_of, task_of])(self.draw)
        self.said.append(f"schedule {given}")
        self.made.append(self.desk.scheduler.schedule("T", **given).record.task.id)

    def tasks(self) -> list[str]:
        chains = (self.desk.scheduler.ends.tasks_of(each) if each.startswith("c_") else [each] for each in self.made)
        return [task_id for ids in chains for task_id in ids]

    def settle_timers(self) -> None:
        """Do what is due, as the dispatcher does, until nothing is left."""
        store, now = self.desk.store, self.desk.clock()
        for _ in range(MAX_PASSES):
            done = [
                store.series.end_pauses(limit=50),
                store.claims.expire(limit=50, conclude=partial(with_consequences, now=now)),
                store.signals.end_late(limit=50),
                store.approvals.expire(limit=50),
                store.series.overtake(limit=50).tasks,
                store.claims.make_ready(limit=50),
            ]
            if not any(done):
                return
        raise AssertionError("the timers have always something left")

    def pass_time(self) -> None:
        self.desk.clock.forward(seconds=self.draw.choice([1, 61, 700, 3600]))
        self.said.append(f"at {self.desk.clock():%H:%M:%S}")
        self.settle_timers()
        ready = [Start(run.run_id) for run in self.desk.store.claims.ready(limit=50)]
        self.held += self.desk.store.claims.start(ready, worker="w", epoch=None, lease=LEASE) if ready else []

    def end_one(self) -> None:
        if self.held:
            claim = self.held.pop(self.draw.randrange(len(self.held)))
            stopped = self.desk.scheduler.get(claim.run.task_id).record.run.cancel_requested
            outcome = self.draw.choice(ENDS)
            self.said.append(f"end {claim.task.id} {outcome}")
            self.desk.end_anew([claim], StoppedByRequest() if stopped else outcome)

    def send(self) -> None:
        self.said.append("send")
        self.desk.scheduler.signals.send(GO)

    def change(self) -> None:
        """Change a task or a chain, and take that back."""
        self.settle_timers()
        name = self.draw.choice([*CHANGES, *ACTIONS])
        target = self.draw.choice(self.tasks() if name == "reject" else [*self.made, *self.tasks()])
        before = self.stored(target)
        given = CHANGES[name](self.draw) if name in CHANGES else {}
        self.said.append(f"{name} {target} {given}")
        try:
            view = self.make(target, name, given)
        except DuetimeError as refused:
            self.said.append(f"  refused: {refused}")
            self.compare(target, before)
            return
        if view.undo and self.stored(target) != before:  # an answer that was given before has its token once more
            self.desk.clock.forward(seconds=self.draw.choice([0, 3]))
            self.said.append(f"  undo {view.undo}")
            self.desk.scheduler.act(target, "undo", undo=view.undo)
            self.settle_timers()
            if not any(STAYS in each for each in view.warnings):
                self.compare(target, before)

    def make(self, target: str, name: str, given: dict[str, Any]) -> TaskView:
        scheduler = self.desk.scheduler
        if name == "cancel":
            return scheduler.cancel(target)
        if name in ACTIONS:
            return scheduler.act(target, name, minutes=30 if name == "snooze" else None)  # type: ignore[arg-type]  # an action
        return scheduler.reschedule(target, **given)

    def compare(self, target: str, before: dict[str, Any]) -> None:
        found = differences(before, self.stored(target))
        assert not found, "; ".join(found)

    def stored(self, target: str) -> dict[str, Any]:
        """Return what is stored of a task, or of the steps of a chain; what went on behind a task stays as it is."""
        ids = self.desk.scheduler.ends.tasks_of(target) if target.startswith("c_") else [target]
        return {task_id: stored_of(self.desk, task_id) for task_id in ids}


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [
        f"{task_id} {name}: {value} -> {after[task_id][name]}"
        for task_id, values in before.items()
        for name, value in values.items()
        if after[task_id][name] != value
    ]


def stored_of(desk: Desk, task_id: str) -> dict[str, Any]:
    """Return what is stored of a task, its run and its waits, but for what an undo leaves as it is."""
    record = desk.scheduler.get(task_id).record
    task, run = replace(record.task, revision=0, updated_at=MORNING), record.run
    found: dict[str, Any] = {name: getattr(run, name) for name in _OF_RUN}
    found["state"] = State.SCHEDULED if run.state in _IN_LINE else run.state
    found["waits since"] = run.first_ready_at if run.state is State.WAITING else None
    found["wakes"] = run.wake_at is not None or run.state is State.READY  # one that was due has come to its turn
    wait = desk.store.signals.wait_of_run(TENANT, task_id, run.id)
    question = desk.store.approvals.open_of(TENANT, [run.id]).get(run.id)
    upstreams = [(each.task_id, each.is_open) for each in desk.store.dependencies.upstreams(TENANT, task_id)]
    beside = sorted(each.scheduled_for for each in record.side_runs)
    open_run = run.ended_at is None
    waits = {"wait": open_run and wait and (wait.wait, wait.is_open), "asks": question and question.question}
    return {"task": task, **found, **waits, "after": upstreams, "beside": beside}


@walks(SEEDS, SEEDS_ON_POSTGRES)
def test_a_change_undone_at_once_is_as_if_it_had_not_been(store: Store, clock: Clock, seed: int) -> None:
    clock.at = MORNING
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
    walk = Walk(Desk(Scheduler(store, planner), store, clock), random.Random(seed))
    walk.said.append(f"seed {seed}")
    steps = [*(walk.change,) * 6, *(walk.pass_time,) * 3, walk.end_one, walk.end_one, walk.send]
    try:
        walk.schedule()
        walk.schedule()
        for _ in range(STEPS_COUNT):
            walk.draw.choice(steps)()
    except AssertionError as error:
        raise AssertionError("\n".join([*walk.said, str(error)])) from None
