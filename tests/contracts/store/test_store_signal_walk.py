"""Waits for signals go through everything at random, and agree with a small model: sent, doubled, late, cancelled.

`SIGNAL_WALKS=3000` asks for more walks, `WALK_FIRST_SEED` for others. The seed is part of each test's name, and a
difference tells the steps to it.
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
from duetime.scheduler.signal.signal import OnTimeout, ReceivedSignal, SignalWait
from duetime.scheduler.store import Store
from duetime.scheduler.task import State

from tests.builders import TENANT, Clock, a_task, added, restarted, settlement

WALKS = int(os.environ.get("SIGNAL_WALKS", "6"))
FIRST_SEED = int(os.environ.get("WALK_FIRST_SEED", "0"))
STEPS = 50
MINUTE = timedelta(minutes=1)
CAME_TO: set[State] = set()
ENDS = {OnTimeout.EXPIRE: State.EXPIRED, OnTimeout.SKIP: State.SKIPPED}


@dataclass
class Waiting:
    """One task by the model: `closed` is empty, `came` or `late`; `behind` is the upstream that has not ended."""

    task_id: str
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
    draw: random.Random
    tasks: list[Waiting] = field(default_factory=list)
    sent: list[tuple[str, int, datetime]] = field(default_factory=list)
    ids: dict[str, tuple[int, int]] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)

    def came(self, wait: SignalWait) -> bool:
        return any(name == wait.name and _meets(wait, k) and at >= wait.since for name, k, at in self.sent)

    def schedule(self) -> None:
        name, k = self.draw.choice("ab"), self.draw.choice([None, 1, 2])
        since = self.clock() - self.draw.choice([0, 0, 5, 30]) * MINUTE
        until = self.clock() + self.draw.choice([5, 20, 60]) * MINUTE
        wait = SignalWait(name, {} if k is None else {"k": k}, since, until, self.draw.choice(list(OnTimeout)))
        upstream = added(self.store).task.id if self.draw.random() < 0.3 else ""
        task, run = a_task(self.clock())
        after = [Dependency(upstream)] if upstream else []
        held = replace(run, state=State.WAITING, wake_at=None)
        self.store.tasks.add(task, held, actor="alice", after=after, wait=wait)
        known = Waiting(task.id, wait, closed="came" if self.came(wait) else "", behind=upstream)
        known.judge()
        self.tasks.append(known)
        self.told.append(f"schedule {task.id} {wait} after {upstream}")

    def send(self) -> None:
        name, k, event_id = self.draw.choice("ab"), self.draw.choice([1, 2]), f"e{self.draw.randrange(60)}"
        self.told.append(f"send {name} {k} {event_id}")
        found = self.store.signals.send(TENANT, ReceivedSignal(name, event_id, {"k": k}), actor="bob")
        if event_id not in self.ids:
            self.sent.append((name, k, self.clock()))
            meant = [each for each in self.tasks if not each.closed and each.wait.name == name and _meets(each.wait, k)]
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
        each.state = State.CANCELLED
        for _ in range(self.draw.randrange(3)):
            self.send()
        if self.draw.random() < 0.7:
            self.told.append(f"undo {each.task_id}")
            self.change(each, EventKind.CANCEL_UNDONE, partial(changes.undo_cancel, token=None))
            each.state = State.WAITING if each.holds() else State.SCHEDULED
            if each.closed != "came":
                each.closed = "came" if self.came(each.wait) else ""
            each.judge()

    def change(self, each: Waiting, kind: EventKind, decide: Any) -> None:
        decided = partial(decide, now=self.clock())
        self.store.tasks.change(TENANT, each.task_id, actor="alice", kind=kind, decide=decided)

    def check(self) -> None:
        for each in self.tasks:
            found = self.store.tasks.get(TENANT, each.task_id).run.state
            expected = {each.state, State.READY} if each.state is State.SCHEDULED else {each.state}
            assert found in expected, "\n".join([*self.told, f"{each}: {found}"])


def _meets(wait: SignalWait, k: int) -> bool:
    return wait.match.get("k", k) == k


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + WALKS))
def test_waits_and_signals_in_any_order_agree_with_the_model(store: Store, clock: Clock, seed: int) -> None:
    walk = Walk(store, clock, random.Random(seed))
    steps = [walk.schedule] * 3 + [walk.send] * 4 + [walk.pass_time] * 2 + [walk.end_upstream, walk.cancel_and_undo]
    for _ in range(STEPS):
        walk.draw.choice(steps)()
        walk.check()
    CAME_TO.update(each.state for each in walk.tasks)


def test_the_walks_came_to_every_end() -> None:
    assert {State.SCHEDULED, *ENDS.values()} <= CAME_TO
