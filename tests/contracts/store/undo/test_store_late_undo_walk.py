"""Links change at random and are taken back later, while events are sent at that moment: nothing waits for ever.

Each walk relinks a few tasks, cancels them, lets them end and run again. An undo takes back the latest change of a task
after changes of others, and an event may be sent within its transaction. After each step every invariant holds: no task
comes after itself, no wait is open whose event has come. There are 5 walks on SQLite and 1 on PostgreSQL.
`LATE_UNDO_WALKS=300` asks for so many on each, `WALK_FIRST_SEED` for others.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Failed
from duetime.scheduler.run_records import Start
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.store.statements.signals import ended_waits
from duetime.scheduler.task import RetryPolicy

from tests.builders import LEASE, Clock
from tests.contracts.store.desk import MORNING, Desk
from tests.invariants import assert_sound
from tests.search import walks

ASKED: Final = os.environ.get("LATE_UNDO_WALKS")
FIRST_SEED: Final = int(os.environ.get("WALK_FIRST_SEED", "0"))
SEEDS: Final = range(FIRST_SEED, FIRST_SEED + int(ASKED or "5"))
SEEDS_ON_POSTGRES: Final = SEEDS if ASKED else SEEDS[:1]
STEPS_COUNT: Final = 40
TASKS_COUNT: Final = 4
GO: Final = "go"
AWAIT: Final[dict[str, Any]] = {"wait_for": {"event": GO, "timeout": "9 hours"}}
ONCE: Final = RetryPolicy(max_attempts=1)
SENT_WITHIN_S: Final = 0.1
"""An event that is not stored within this time waits for the transaction in which it is sent."""


@dataclass
class Walk:
    """Tasks in a store, the tokens of their latest changes, and the same database as another process has it."""

    desk: Desk
    beside: Store
    draw: random.Random
    patch: pytest.MonkeyPatch
    tasks: list[str] = field(default_factory=list)
    tokens: dict[str, str] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)

    def schedule(self) -> None:
        wait: dict[str, Any] = AWAIT if self.draw.random() < 0.4 else {}
        after: dict[str, Any] = {}
        if self.tasks and self.draw.random() < 0.25:
            after = {"after": [self.draw.choice(self.tasks)], "after_failure": "run_anyway"}
        when = self.draw.choice(["in 1 minute", "in 2 hours", "in 3 hours"])
        self.said.append(f"schedule {after} {wait} {when}")
        view = self.desk.scheduler.schedule("T", when=when, retry=ONCE, **after, **wait)
        self.tasks.append(view.record.task.id)

    def changed(self, task_id: str, words: str, change: Callable[[], Any]) -> None:
        self.said.append(f"{words} {task_id}")
        try:
            view = change()
        except DuetimeError as refused:
            self.said.append(f"  refused: {refused}")
            return
        self.tokens.pop(task_id, None)
        if view.undo:
            self.tokens[task_id] = view.undo

    def relink(self) -> None:
        task_id, *others = self.draw.sample(self.tasks, len(self.tasks))
        after, none = {"after": others[:1]}, {"remove": ["after"]}
        given: dict[str, Any] = self.draw.choice([*(after,) * 8, none, AWAIT, {"remove": ["wait_for"]}])
        self.changed(task_id, f"relink {given}", lambda: self.desk.scheduler.reschedule(task_id, **given))

    def cancel(self) -> None:
        task_id = self.draw.choice(self.tasks)
        self.changed(task_id, "cancel", lambda: self.desk.scheduler.cancel(task_id))

    def run_again(self) -> None:
        task_id = self.draw.choice(self.tasks)
        self.changed(task_id, "again", lambda: self.desk.scheduler.reschedule(task_id, when="in 1 minute"))

    def undo(self) -> None:
        """Take a change back, and send an event once that has opened a wait, before it is committed."""
        if not self.tokens:
            return
        task_id = self.draw.choice(list(self.tokens))
        token, sending = self.tokens[task_id], list[threading.Thread]()
        with self.patch.context() as patch:
            if self.draw.random() < 0.5:
                patch.setattr(ended_waits, "reopen", self.sent_within(ended_waits.reopen, sending))
            self.changed(task_id, "undo", lambda: self.desk.scheduler.act(task_id, "undo", undo=token))
        self.tokens.pop(task_id, None)
        for thread in sending:
            thread.join()

    def sent_within(self, reopen: Callable[..., bool], sending: list[threading.Thread]) -> Callable[..., bool]:
        def opened(*given: Any) -> bool:
            done = reopen(*given)
            thread = threading.Thread(
                target=Scheduler(self.beside, self.desk.scheduler._planner).signals.send, args=[GO]
            )
            self.said.append("  send within")
            thread.start()
            thread.join(SENT_WITHIN_S)
            sending.append(thread)
            return done

        return opened

    def send(self) -> None:
        self.said.append("send")
        self.desk.scheduler.signals.send(GO)

    def pass_time(self) -> None:
        """Let time pass, and end what is due by then."""
        self.desk.clock.forward(seconds=self.draw.choice([1, 5, 5, 61]))
        ready = [Start(run.run_id) for run in self.desk.store.claims.make_ready(limit=9)]
        claims = self.desk.store.claims.start(ready, worker="w", epoch=None, lease=LEASE)
        self.said.append(f"at {self.desk.clock():%H:%M:%S} end {[each.task.id for each in claims]}")
        for claim in claims:
            self.desk.end([claim], Done("ok") if self.draw.random() < 0.5 else Failed("no"))

    def replace_ended(self) -> None:
        """Schedule tasks in place of those that have ended, but for one that an undo may bring back."""
        for task_id in self.tasks:
            if task_id not in self.tokens and self.desk.scheduler.get(task_id).record.run.ended_at:
                self.tasks.remove(task_id)
                return self.schedule()
        return None

    def run(self) -> None:
        for _ in range(TASKS_COUNT):
            self.schedule()
        often, seldom = (self.relink, self.relink, self.undo), (self.cancel, self.run_again, self.send, self.pass_time)
        for _ in range(STEPS_COUNT):
            self.draw.choice([*often * 4, *seldom])()
            self.replace_ended()
            assert_sound(self.desk.store)
            assert self.desk.store.dependencies.repair(limit=9) == 0, "nothing is left to be followed"


@pytest.fixture
def beside(url: str, clock: Clock) -> Iterator[Store]:
    """Open the same database again, as another process has it."""
    store = open_store(url, clock=clock, synchronous="OFF")
    yield store
    store.close()


@walks(SEEDS, SEEDS_ON_POSTGRES)
def test_a_later_undo_leaves_nothing_that_waits_for_ever(
    store: Store, beside: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    clock.at = MORNING
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
    walk = Walk(Desk(Scheduler(store, planner), store, clock), beside, random.Random(seed), monkeypatch)
    walk.said.append(f"seed {seed}")
    try:
        walk.run()
    except AssertionError as error:
        raise AssertionError("\n".join([*walk.said, str(error)])) from None
