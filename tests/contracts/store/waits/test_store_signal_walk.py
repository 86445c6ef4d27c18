"""Waits for signals go through everything at random, and agree with a small model: sent, doubled, late, cancelled.

A wait is for one of up to three signals. 27 walks: 25 with one store on SQLite, 2 on PostgreSQL. `SIGNAL_WALKS=3000`
asks for so many on each database, `WALK_FIRST_SEED` for others. The first seed with a store is part of each test's
name, and a difference names its own and the steps to it.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from duetime.scheduler.chain.dependency import Dependency
from duetime.scheduler.events import EventKind
from duetime.scheduler.rules import changes
from duetime.scheduler.store import Store
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.task import State
from duetime.scheduler.waits.signal import OnTimeout, ReceivedSignal, SignalWait
from sqlalchemy import bindparam, select, true

from tests.builders import TENANT, Clock, a_task, added, restarted, settlement

ASKED = os.environ.get("SIGNAL_WALKS")
WALK_COUNT = int(ASKED or "25")
FIRST_SEED = int(os.environ.get("WALK_FIRST_SEED", "0"))
STEP_COUNT, STORE_WALK_COUNT = 40, 25
WALKS_ON_POSTGRES = STORE_WALK_COUNT if ASKED else 2
MINUTE = timedelta(minutes=1)
CURRENT = select(runs.c.task_id, runs.c.state).where(
    runs.c.task_id.in_(bindparam("of_tasks", expanding=True)), runs.c.current == true()
)
ENDS = {OnTimeout.EXPIRE: State.EXPIRED, OnTimeout.SKIP: State.SKIPPED}


@dataclass
class Waiting:
    """One task by the model: `closed` is empty, `came` or `late`; `behind` is the upstream that has not ended."""

    task_id: str
    run_id: str
    wait: SignalWait
    state: State = State.WAITING
    closed: str = ""
    behind: str = ""

    def judge(self) -> None:
        if self.state is not State.WAITING:
            return
        if self.closed == "late" and self.wait.on_timeout in ENDS:
            self.state = ENDS[self.wait.on_timeout]
        elif self.closed and not self.behind:
            self.state = State.SCHEDULED

    def holds(self) -> bool:
        """Whether an undone cancel leaves it waiting."""
        late = self.closed == "late" and self.wait.on_timeout in ENDS
        return bool(not self.closed or late or self.behind)


@dataclass
class Walk:
    """The product, the model, and what both were told."""

    store: Store
    clock: Clock
    seed: int
    draw: random.Random
    tasks: list[Waiting] = field(default_factory=list)
    sent: list[tuple[str, int, datetime]] = field(default_factory=list)
    ids: dict[str, tuple[int, int]] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)

    def came(self, wait: SignalWait) -> bool:
        return any(_meets(each, name, k) and at >= each.since for each in wait.all for name, k, at in self.sent)

    def wait(self) -> SignalWait:
        """Draw a wait for one signal, or for any of several, each with a lookback of its own."""
        until, policy = self.clock() + self.draw.choice([5, 20, 60]) * MINUTE, self.draw.choice(list(OnTimeout))
        waits = []
        for _ in range(self.draw.choice([1, 1, 2, 3])):
            k = self.draw.choice([None, 1, 2])
            since = self.clock() - self.draw.choice([0, 0, 5, 30]) * MINUTE
            waits.append(SignalWait(self.name(), {} if k is None else {"k": k}, since, until, policy))
        return replace(waits[0], others=tuple(waits[1:]))

    def name(self) -> str:
        """Draw a name that only this walk has."""
        return f"{self.draw.choice('abc')}{self.seed}"

    def schedule(self) -> None:
        wait = self.wait()
        upstream = added(self.store).task.id if self.draw.random() < 0.3 else ""
        task, run = a_task(self.clock())
        after = [Dependency(upstream)] if upstream else []
        held = replace(run, state=State.WAITING, wake_at=None)
        self.store.tasks.add(task, held, actor="alice", after=after, wait=wait)
        known = Waiting(task.id, run.id, wait, closed="came" if self.came(wait) else "", behind=upstream)
        known.judge()
        self.tasks.append(known)
        self.told.append(f"schedule {task.id} {wait} after {upstream}")

    def send(self) -> None:
        name, k, event_id = self.name(), self.draw.choice([1, 2]), f"e{self.draw.randrange(60)}-{self.seed}"
        self.told.append(f"send {name} {k} {event_id}")
        found = self.store.signals.send(TENANT, ReceivedSignal(name, event_id, {"k": k}), actor="bob")
        if event_id not in self.ids:
            self.sent.append((name, k, self.clock()))
            meant = [
                task for task in self.tasks if not task.closed and any(_meets(each, name, k) for each in task.wait.all)
            ]
            waited = [each for each in meant if each.state is State.WAITING]
            for each in meant:
                each.closed = "came"
                each.judge()
            freed = sum(each.state is State.SCHEDULED for each in waited)
            self.ids[event_id] = freed, len(waited) - freed
        assert (found.freed, found.matched) == self.ids[event_id]

    def pass_time(self) -> None:
        self.clock.forward(minutes=self.draw.choice([1, 5, 20]))
        self.told.append(f"now {self.clock()}")
        while self.store.signals.end_late(limit=3):
            pass
        for each in self.tasks:
            if not each.closed and each.wait.until <= self.clock():
                each.closed = "late"
                each.judge()

    def end_upstream(self) -> None:
        behind = [each for each in self.tasks if each.behind]
        if behind:
            each = self.draw.choice(behind)
            self.told.append(f"end {each.behind}")
            upstream = self.store.tasks.get(TENANT, each.behind)
            self.store.claims.settle([settlement(restarted(self.store, upstream))])
            each.behind = ""
            each.judge()

    def cancel_and_undo(self) -> None:
        open_ones = [each for each in self.tasks if each.state is State.WAITING]
        if not open_ones:
            return
        each = self.draw.choice(open_ones)
        self.told.append(f"cancel {each.task_id}")
        self.change(each, EventKind.CANCELLED, changes.cancel)
        each.state, was, each.closed = State.CANCELLED, each.closed, each.closed or "ended"
        for _ in range(self.draw.randrange(3)):
            self.send()
        if self.draw.random() < 0.7:
            self.told.append(f"undo {each.task_id}")
            self.change(each, EventKind.CANCEL_UNDONE, partial(changes.undo_cancel, token=None))
            each.closed = was
            each.state = State.WAITING if each.holds() else State.SCHEDULED
            if each.closed != "came":
                each.closed = "came" if self.came(each.wait) else ""
            each.judge()

    def change(self, each: Waiting, kind: EventKind, decide: Any) -> None:
        decided = partial(decide, now=self.clock())
        self.store.tasks.change(TENANT, each.task_id, actor="alice", kind=kind, decide=decided)

    def check(self) -> None:
        """Compare the states of all tasks, which one query reads, and whether a signal came to a wait."""
        ids = {"of_tasks": [each.task_id for each in self.tasks]}
        found = dict(self.store._database.read(lambda connection: connection.execute(CURRENT, ids).all()))
        for each in self.tasks:
            expected = {each.state, State.READY} if each.state is State.SCHEDULED else {each.state}
            assert found[each.task_id] in expected, f"{each}: {found[each.task_id]}"
        for each in self.draw.sample(self.tasks, min(1, len(self.tasks))):
            kept = self.store.signals.wait_of_run(TENANT, each.task_id, each.run_id)
            assert kept is not None
            assert (kept.signal is not None) == (each.closed == "came"), f"{each}: {kept}"

    def run(self) -> None:
        steps = [self.schedule] * 3 + [self.send] * 4 + [self.pass_time] * 2 + [self.end_upstream, self.cancel_and_undo]
        for _ in range(STEP_COUNT):
            self.draw.choice(steps)()
            self.check()


def _meets(wait: SignalWait, name: str, k: int) -> bool:
    return wait.name == name and wait.match.get("k", k) == k


@pytest.mark.parametrize("first", range(FIRST_SEED, FIRST_SEED + WALK_COUNT, STORE_WALK_COUNT))
def test_waits_and_signals_in_any_order_agree_with_the_model(url: str, store: Store, clock: Clock, first: int) -> None:
    most = STORE_WALK_COUNT if url.startswith("sqlite") else WALKS_ON_POSTGRES
    came_to: set[State] = set()
    seeds = range(first, min(first + most, FIRST_SEED + WALK_COUNT))
    for seed in seeds:
        walk = Walk(store, clock, seed, random.Random(seed))
        try:
            walk.run()
        except AssertionError as error:
            raise AssertionError("\n".join([f"seed {seed}", *walk.told, str(error)])) from error
        came_to.update(each.state for each in walk.tasks)
    if len(seeds) == STORE_WALK_COUNT:  # fewer may leave one out
        assert {State.WAITING, State.SCHEDULED, State.CANCELLED, *ENDS.values()} <= came_to
