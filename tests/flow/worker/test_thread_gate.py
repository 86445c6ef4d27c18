"""Runs that were claimed ahead of their threads leave the threads alone that are kept for urgent runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
from duetime.scheduler.dispatch.dispatcher import Dispatcher
from duetime.scheduler.handlers import Context, Handlers, handler
from duetime.scheduler.outcomes import Done
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.records import Claim
from duetime.scheduler.rules.headroom import HeadroomParts
from duetime.scheduler.store import Store
from duetime.scheduler.task import State, TaskRecord, Tier
from duetime.scheduler.worker.active_runs import ActiveRun
from duetime.scheduler.worker.capacity import MIN_RUNS_JUDGED, ThreadCapacity
from duetime.scheduler.worker.threads.gate import ThreadGate
from duetime.scheduler.worker.worker import Worker, WorkerOptions

from tests.builders import TENANT, Clock, a_task, added
from tests.flow.waiting import eventually
from tests.flow.worker.test_pools import GRACE

THREADS = 3


@pytest.fixture
def idle() -> ThreadCapacity:
    """Threads for which more runs were claimed than there are."""
    made = ThreadCapacity(THREADS)
    made.out = 6
    return made


@pytest.fixture
def gate(idle: ThreadCapacity) -> ThreadGate:
    """Keep one thread for urgent runs."""
    return ThreadGate(idle, lambda: HeadroomParts(0, 0.34).of(idle.total))


def held(tier: Tier = Tier.NORMAL) -> ActiveRun:
    task, run = a_task(priority=tier)
    made = ActiveRun(Claim(replace(run, state=State.RUNNING), task, "w"))
    assert made.begin()
    return made


class Story:
    """Runs on threads that each wait inside for the next: `inside` says which a run starts before it ends."""

    def __init__(self, gate: ThreadGate, **runs: ActiveRun) -> None:
        self.gate, self.runs, self.log = gate, runs, list[str]()
        self.inside: dict[str, Callable[[], object]] = {}
        self.lost: set[str] = set()

    def start(self, name: str) -> None:
        self.gate.run(self.runs[name], self._run)

    def _run(self, held: ActiveRun) -> bool:
        name = next(name for name, each in self.runs.items() if each is held)
        self.log.append(name)
        self.inside.get(name, int)()
        self.log.append(f"{name} ended")
        return name not in self.lost


def test_a_run_that_would_take_a_thread_kept_for_others_starts_when_another_ends(
    gate: ThreadGate, idle: ThreadCapacity
) -> None:
    story = Story(gate, first=held(), second=held(), third=held())
    story.inside = {"first": lambda: story.start("second"), "second": lambda: story.start("third")}
    story.start("first")
    assert story.log == ["first", "second", "second ended", "third", "third ended", "first ended"]
    assert idle.out == 6, "its message was given back early, and its run counts until its thread does"


def test_an_urgent_run_takes_a_thread_that_is_kept_for_it(gate: ThreadGate) -> None:
    story = Story(gate, first=held(), second=held(), urgent=held(Tier.HIGH))
    story.inside = {"first": lambda: story.start("second"), "second": lambda: story.start("urgent")}
    story.start("first")
    assert story.log[:4] == ["first", "second", "urgent", "urgent ended"]


def test_while_no_more_are_claimed_than_there_are_threads_every_run_starts(
    gate: ThreadGate, idle: ThreadCapacity
) -> None:
    idle.out = THREADS
    story = Story(gate, first=held(), second=held(), third=held())
    story.inside = {"first": lambda: story.start("second"), "second": lambda: story.start("third")}
    story.start("first")
    assert story.log[:3] == ["first", "second", "third"]


def test_runs_that_were_handed_back_are_forgotten(gate: ThreadGate, idle: ThreadCapacity) -> None:
    aside = held()
    story = Story(gate, first=held(), second=held(), aside=aside)

    def hand_back() -> None:
        story.start("aside")
        assert idle.out == 7, "its message is done with, and it still counts"
        assert aside.begin(), "it may be handed back while it is set aside"
        gate.clear()

    story.inside = {"first": lambda: story.start("second"), "second": hand_back}
    story.start("first")
    assert story.log == ["first", "second", "second ended", "first ended"]
    assert idle.out == 6


def test_a_run_that_was_handed_back_before_its_turn_is_passed_over(gate: ThreadGate, idle: ThreadCapacity) -> None:
    gone = held()
    story = Story(gate, first=held(), second=held(), gone=gone, next=held())

    def fill() -> None:
        story.start("gone")
        story.start("next")
        assert gone.begin()

    story.inside = {"first": lambda: story.start("second"), "second": fill}
    story.start("first")
    assert story.log == ["first", "second", "second ended", "next", "next ended", "first ended"]
    assert idle.out == 6


def test_a_thread_that_is_lost_starts_nothing_more(gate: ThreadGate) -> None:
    story = Story(gate, first=held(), second=held(), aside=held())
    story.inside = {"first": lambda: story.start("second"), "second": lambda: story.start("aside")}
    story.lost = {"first", "second"}
    story.start("first")
    assert story.log == ["first", "second", "second ended", "first ended"]


def test_a_critical_run_finds_a_thread_though_long_runs_were_claimed_ahead_as_if_they_were_brief(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duetime.scheduler.worker.capacity.BRIEF_RUN_S", 10.0)  # whatever the machine is doing
    queue, go = MemoryQueue(lambda: clock().timestamp() * 1000), threading.Event()
    slow, running = set[str](), set[str]()

    @handler("reminder")
    def remind(ctx: Context) -> Done:
        """Last until all are let go, or not at all."""
        if ctx.task_id in slow:
            running.add(ctx.task_id)
            go.wait(30)
        return Done()

    brief = [added(store).task.id for _ in range(MIN_RUNS_JUDGED + 10)]
    slow.update(added(store).task.id for _ in range(40))
    worker = Worker(store, queue, Handlers([remind]), WorkerOptions("w", threads=8))
    while Dispatcher(store, queue).step() <= 0:
        pass
    worker.start()
    eventually(lambda: len(running) == 7, "all threads to be busy but the one that is kept")
    critical = added(store, priority=Tier.CRITICAL)
    slow.add(critical.task.id)
    Dispatcher(store, queue).step()
    eventually(lambda: critical.task.id in running, "the critical run")
    assert len(running) == 8
    go.set()
    eventually(lambda: all(_ended(store, queue, task) for task in [*brief, *slow]), "all to end")
    worker.stop(GRACE)
    assert queue.stats().leased == 0


def _ended(store: Store, queue: MemoryQueue, task_id: str) -> bool:
    Dispatcher(store, queue).step()
    record: TaskRecord = store.tasks.get(TENANT, task_id)
    return record.run.state is State.SUCCEEDED
