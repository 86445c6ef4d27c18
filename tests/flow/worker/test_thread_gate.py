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
from duetime.scheduler.rules.headroom import HeadroomParts
from duetime.scheduler.run_records import Claim
from duetime.scheduler.store import Store
from duetime.scheduler.task import State, Tier
from duetime.scheduler.views import TaskRecord
from duetime.scheduler.worker.active_runs import ActiveRun
from duetime.scheduler.worker.capacity import MIN_RUNS_JUDGED, ThreadCapacity
from duetime.scheduler.worker.threads.gate import ThreadGate
from duetime.scheduler.worker.worker import Worker, WorkerOptions

from tests.builders import TENANT, Clock, a_task, added
from tests.flow.waiting import eventually
from tests.flow.worker.test_pools import GRACE

THREAD_COUNT = 3


@pytest.fixture
def idle() -> ThreadCapacity:
    made = ThreadCapacity(THREAD_COUNT)
    made.out = 6
    return made


@pytest.fixture
def gate(idle: ThreadCapacity) -> ThreadGate:
    """Keep one thread for urgent runs."""
    return ThreadGate(idle, lambda: HeadroomParts(0, 0.34).of(idle.total))


def held(name: str, tier: Tier = Tier.NORMAL) -> ActiveRun:
    task, run = a_task(priority=tier)
    return ActiveRun(Claim(replace(run, id=name, state=State.RUNNING), task, "w"))


class Story:
    """Runs on threads that each wait inside for the next: `inside` says what happens before a run ends."""

    def __init__(self, gate: ThreadGate) -> None:
        self.gate, self.log = gate, list[str]()
        self.inside: dict[str, Callable[[], object]] = {}
        self.lost: set[str] = set()

    def start(self, name: str) -> None:
        self.gate.run(name, self._run, self._failed)

    def _failed(self, held: ActiveRun, error: BaseException) -> None:
        self.log.append(f"{held.run_id} {type(error).__name__}")

    def _run(self, held: ActiveRun) -> bool:
        held.thread = threading.current_thread()
        self.log.append(held.run_id)
        self.inside.get(held.run_id, int)()
        self.log.append(f"{held.run_id} ended")
        return held.run_id not in self.lost


def test_a_thread_is_called_for_each_run_that_may_start_and_takes_the_others_from_the_line(
    gate: ThreadGate, idle: ThreadCapacity
) -> None:
    assert gate.line_up(map(held, "abcd")) == ["a", "b"], "the third thread is kept"
    story = Story(gate)
    story.start("a")
    assert story.log == ["a", "a ended", "c", "c ended", "d", "d ended"]
    story.start("b")
    assert story.log[-1] == "b ended"
    assert idle.out == 4, "two ended on the way; Dramatiq gives back the two messages"


def test_runs_that_wait_in_line_go_before_those_claimed_later(gate: ThreadGate) -> None:
    assert gate.line_up(map(held, "abc")) == ["a", "b"]
    story = Story(gate)
    story.inside = {"a": lambda: gate.line_up([held("d")])}
    story.start("a")
    assert story.log[::2] == ["a", "c", "d"]


def test_an_urgent_run_takes_a_thread_that_is_kept_for_it_though_others_wait_before_it(gate: ThreadGate) -> None:
    gate.line_up(map(held, "abc"))
    assert gate.line_up([held("urgent", Tier.HIGH)]) == ["urgent"]


def test_a_thread_that_has_ended_its_runs_can_be_called_again(gate: ThreadGate) -> None:
    gate.line_up(map(held, "ab"))
    Story(gate).start("a")
    assert gate.line_up(map(held, "cd")) == ["c"]


def test_a_run_whose_thread_fails_is_reported_and_its_thread_takes_the_next_one(gate: ThreadGate) -> None:
    def fail() -> None:
        raise SystemExit

    gate.line_up(map(held, "abc"))
    story = Story(gate)
    story.inside = {"a": fail}
    story.start("a")
    assert story.log == ["a", "a SystemExit", "c", "c ended"]
    story.start("b")
    assert gate.line_up(map(held, "de")) == ["d", "e"], "no run keeps a thread"


def test_a_run_that_was_not_lined_up_here_never_starts(gate: ThreadGate, idle: ThreadCapacity) -> None:
    story = Story(gate)
    story.start("unknown")
    assert (story.log, idle.out) == ([], 6)


def test_a_thread_called_for_a_run_that_was_handed_back_takes_the_next_one(
    gate: ThreadGate, idle: ThreadCapacity
) -> None:
    gone, gone_too = held("a"), held("c")
    gate.line_up([gone, held("b"), gone_too, held("d")])
    assert gone.begin()
    assert gone_too.begin()
    story = Story(gate)
    story.start("a")
    assert story.log == ["d", "d ended"]
    assert idle.out == 4, "for two that were handed back; its message stands for the third"


def test_runs_in_line_that_were_handed_back_are_forgotten(gate: ThreadGate, idle: ThreadCapacity) -> None:
    gate.line_up(map(held, "abcd"))
    gate.clear()
    story = Story(gate)
    story.start("a")
    assert (story.log, idle.out) == (["a", "a ended"], 4)


def test_a_run_that_is_claimed_again_while_its_last_attempt_ends_waits_for_that(gate: ThreadGate) -> None:
    gate.line_up([held("a")])
    story = Story(gate)
    called: list[list[str]] = []

    def claim_again() -> None:
        story.inside.clear()
        called.append(gate.line_up([held("a")]))

    story.inside = {"a": claim_again}
    story.start("a")
    assert called == [[]]
    assert story.log == ["a", "a ended", "a", "a ended"]


def test_a_lost_thread_starts_nothing_more_and_another_takes_its_place(gate: ThreadGate) -> None:
    gate.line_up(map(held, "abc"))
    story, called = Story(gate), list[str]()

    def replace_this() -> None:
        gate.replaced(threading.current_thread())
        called.extend(gate.line_up([]))

    story.inside, story.lost = {"a": replace_this}, {"a"}
    story.start("a")
    assert (story.log, called) == (["a", "a ended"], ["c"])
    assert gate.line_up([held("d")]) == [], "the lost one frees no thread a second time"


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
            go.wait(60)
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
