"""The Dramatiq broker takes as many runs as threads are idle, claims before it hands out, and fails closed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import cast

import dramatiq
import pytest
from dramatiq import MessageProxy
from duetime.scheduler.errors import RunnerReplaced, StoreUnavailable
from duetime.scheduler.queue import Entry, Grant, Kind, Limits, ThreadUse
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.rules.headroom import HeadroomParts
from duetime.scheduler.worker.active_runs import ActiveRuns
from duetime.scheduler.worker.broker import CLAIM_RETRY_DELAY_MS, RUN_ACTOR, RUN_QUEUE, DispatchBroker
from duetime.scheduler.worker.capacity import MIN_RUNS_JUDGED, ThreadCapacity
from duetime.scheduler.worker.threads.preemption import Preemption
from duetime.scheduler.worker.threads.takes import TakeOptions

from tests.contracts.queue.suite import Clock
from tests.flow.waiting import eventually

THREAD_COUNT = 3


class Desk:
    """Stands where the store's claims stand: starts what it is asked to, but for what it was told to refuse."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.refused: set[str] = set()
        self.down = False
        self.lost_threads = 0

    def line_up(self, run_ids: Sequence[str]) -> Sequence[str]:
        return run_ids

    def let_go(self) -> None:
        """Do nothing: no run was claimed ahead."""

    def claim(self, grants: Sequence[Grant], _taken_at: float) -> list[str]:
        if self.down:
            raise StoreUnavailable("the database is down")
        run_ids = [grant.run_id for grant in grants]
        self.batches.append(run_ids)
        return [run_id for run_id in run_ids if run_id not in self.refused]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def queue(clock: Clock) -> MemoryQueue:
    return MemoryQueue(clock)


@pytest.fixture
def target() -> Desk:
    return Desk()


@pytest.fixture
def broker(queue: MemoryQueue, target: Desk, clock: Clock) -> DispatchBroker:
    return DispatchBroker(queue, target, TakeOptions("w", THREAD_COUNT, 10_000), middleware=[], clock=clock)


def put(queue: MemoryQueue, clock: Clock, count: int) -> None:
    queue.put([Entry(f"r{n}", clock.ms + n) for n in range(count)])


@contextmanager
def at_work(broker: DispatchBroker, run: Callable[[str], object]) -> Iterator[dramatiq.Worker]:
    dramatiq.actor(broker=broker, actor_name=RUN_ACTOR, queue_name=RUN_QUEUE)(run)
    worker = dramatiq.Worker(broker, worker_threads=THREAD_COUNT, worker_timeout=20)
    worker.start()
    yield worker
    broker.drain()
    worker.stop(timeout=10_000)


def test_no_more_is_taken_than_threads_are_idle(
    broker: DispatchBroker, queue: MemoryQueue, target: Desk, clock: Clock
) -> None:
    put(queue, clock, 10)
    go = threading.Event()
    with at_work(broker, lambda _: not go.wait(60) or None):
        eventually(lambda: target.batches, "a claim")
        eventually(lambda: len(target.batches[0]) == THREAD_COUNT, "a batch as large as the threads")
        assert queue.stats().leased == THREAD_COUNT
        assert queue.stats().waiting[2] == 10 - THREAD_COUNT
        go.set()
        eventually(lambda: sum(len(batch) for batch in target.batches) == 10, "all runs")
    assert all(len(batch) <= THREAD_COUNT for batch in target.batches)


def test_runs_start_in_the_order_of_the_queue(
    broker: DispatchBroker, queue: MemoryQueue, target: Desk, clock: Clock
) -> None:
    put(queue, clock, 10)
    with at_work(broker, lambda _: None):
        eventually(lambda: sum(len(batch) for batch in target.batches) == 10, "all runs")
    assert [run_id for batch in target.batches for run_id in batch] == [f"r{n}" for n in range(10)]


def test_a_run_that_must_not_start_is_dropped_from_the_queue_and_never_run(
    broker: DispatchBroker, queue: MemoryQueue, target: Desk, clock: Clock
) -> None:
    put(queue, clock, 3)
    target.refused = {"r1"}
    seen: list[str] = []
    with at_work(broker, seen.append):
        eventually(lambda: len(seen) == 2, "the two others")
        assert queue.explain("r1") is None
    assert sorted(seen) == ["r0", "r2"]


def test_nothing_runs_while_the_database_is_down_and_all_runs_when_it_is_back(
    broker: DispatchBroker, queue: MemoryQueue, target: Desk, clock: Clock
) -> None:
    put(queue, clock, 3)
    target.down = True
    seen: list[str] = []
    with at_work(broker, seen.append):
        eventually(lambda: queue.stats().delayed == 3, "the runs to be back in the queue")
        assert not seen
        target.down = False
        clock.ms += CLAIM_RETRY_DELAY_MS
        queue.wake()
        eventually(lambda: sorted(seen) == ["r0", "r1", "r2"], "all runs")


@pytest.mark.parametrize("minutes", [-10, 10])
def test_delays_are_kept_whatever_the_clock_of_the_database_says(
    queue: MemoryQueue, target: Desk, clock: Clock, minutes: int
) -> None:
    broker = DispatchBroker(
        queue, target, TakeOptions("w", 1, 1e4), middleware=[], clock=lambda: clock.ms + 6e4 * minutes
    )
    put(queue, clock, 1)
    target.down = True
    assert broker.take(0) == []
    clock.ms += CLAIM_RETRY_DELAY_MS - 1
    assert queue.take("w", 1, 1e4).run_ids == ()
    clock.ms += 1
    target.down = False
    assert broker.take(0) == ["r0"]


def test_dramatiq_runs_the_actor_after_any_other_error_in_a_hook() -> None:
    """The reason why no hook decides what may run, but the gate; should it change, this fails."""

    class Broken(dramatiq.Middleware):
        def before_process_message(self, broker: dramatiq.Broker, message: MessageProxy) -> None:  # noqa: ARG002 - Dramatiq's
            raise RuntimeError("the database is down")

    clock, target = Clock(), Desk()
    queue = MemoryQueue(clock)
    broker = DispatchBroker(queue, target, TakeOptions("w", 1, 1e4), middleware=[Broken()], clock=clock)
    seen: list[str] = []
    queue.put([Entry("r", clock.ms)])
    with at_work(broker, seen.append):
        eventually(lambda: seen == ["r"], "the actor")


def test_a_message_enqueued_through_dramatiq_goes_into_the_queue_with_its_delay(
    broker: DispatchBroker, queue: MemoryQueue, clock: Clock
) -> None:
    broker.enqueue(message_of(broker, "now"))
    broker.enqueue(message_of(broker, "later"), delay=5000)
    assert queue.take("w", 9, 1e4).run_ids == ("now",)
    clock.ms += 5000
    assert queue.take("w", 9, 1e4).run_ids == ("later",)


def test_a_draining_broker_takes_nothing(broker: DispatchBroker, queue: MemoryQueue, clock: Clock) -> None:
    put(queue, clock, 2)
    broker.drain()
    assert broker.take(0) == []
    assert queue.stats().waiting[2] == 2


def test_a_broker_that_drains_while_it_waits_for_a_thread_takes_nothing(
    broker: DispatchBroker, queue: MemoryQueue, target: Desk, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def drain_meanwhile(_: float) -> int:
        broker.drain()
        return 1

    put(queue, clock, 2)
    monkeypatch.setattr(broker.idle, "take_all", drain_meanwhile)
    assert broker.take(0) == []
    assert queue.stats().waiting[2] == 2
    assert not target.batches


def test_draining_waits_for_a_claim_that_is_under_way(
    broker: DispatchBroker, queue: MemoryQueue, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    claiming, drained = threading.Event(), threading.Event()
    too_early: list[bool] = []

    def claim(grants: Sequence[Grant], _taken_at: float) -> list[str]:
        claiming.set()
        too_early.append(drained.wait(0.1))
        return [grant.run_id for grant in grants]

    put(queue, clock, 1)
    monkeypatch.setattr(broker.runs, "claim", claim)
    taking = threading.Thread(target=broker.take, args=(0,))
    taking.start()
    assert claiming.wait(60)
    broker.drain()
    drained.set()
    taking.join(60)
    assert too_early == [False]


def test_a_claim_that_finds_its_runner_replaced_may_drain(
    broker: DispatchBroker, queue: MemoryQueue, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[bool] = []

    def claim(_: Sequence[Grant], _taken_at: float) -> list[str]:
        broker.drain()
        waited.append(not broker.claiming.acquire(blocking=False))
        broker.claiming.release()
        raise RunnerReplaced(1, 2)

    put(queue, clock, 1)
    monkeypatch.setattr(broker.runs, "claim", claim)
    assert broker.take(0) == []
    assert queue.stats().delayed == 1
    assert waited == [False]


def message_of(broker: DispatchBroker, run_id: str) -> dramatiq.Message[None]:
    return dramatiq.Message(RUN_QUEUE, RUN_ACTOR, (run_id,), {}, {}, message_id=run_id)


def test_under_pressure_a_thread_that_comes_back_is_given_a_new_run_at_once(
    queue: MemoryQueue, target: Desk, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duetime.scheduler.worker.broker.LOAD_CHECK_INTERVAL_S", 60)
    queue.put([Entry("a", 1), Entry("b", 2)])
    broker = DispatchBroker(
        queue, target, TakeOptions("w", THREAD_COUNT, 10_000, allowance=lambda _: 1), middleware=[], clock=clock
    )
    assert broker.take(0) == ["a"]
    taken: list[str] = []
    waiting = threading.Thread(target=lambda: taken.extend(broker.take(60) + broker.take(60)), daemon=True)
    waiting.start()
    eventually(lambda: broker.idle._wake_above < THREAD_COUNT, "it to wait for a thread")
    broker.idle.give(1)
    waiting.join(120)
    assert taken == ["b"]


@pytest.mark.parametrize(("needs", "rushed"), [({}, True), ({"gpu": 1}, False)], ids=["nothing", "a pool"])
def test_a_take_that_fills_every_thread_is_a_rush_of_brief_runs_that_hold_nothing(
    broker: DispatchBroker,
    queue: MemoryQueue,
    clock: Clock,
    needs: dict[str, int],
    monkeypatch: pytest.MonkeyPatch,
    *,
    rushed: bool,
) -> None:
    monkeypatch.setattr(queue, "wait", lambda *_, **__: None)
    queue.set_pool("gpu", Limits(Kind.SLOTS, 99))
    queue.put([Entry(f"r{n}", clock.ms + n, needs=needs) for n in range(3 * THREAD_COUNT - 1)])
    for _ in range(MIN_RUNS_JUDGED):
        broker.idle.took(0.0, alone=True)
    assert (len(broker.take(0)), broker.rushed) == (THREAD_COUNT, False)
    assert (len(broker.take(0)), broker.rushed) == (2 * THREAD_COUNT - 1, rushed)
    broker.idle.give(3 * THREAD_COUNT - 1)
    assert (broker.take(0), broker.rushed) == ([], False)


class Room:
    """Stands where preemption stands: notes what the worker reports when it looks for runs without a thread."""

    def __init__(self) -> None:
        self.count = 3
        self.seen: list[ThreadUse] = []
        self.reported: list[ThreadUse] = []

    def make_room(self, threads: ThreadUse) -> None:
        self.seen.append(threads)

    def report(self, threads: ThreadUse) -> None:
        self.reported.append(threads)


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Room:
    monkeypatch.setattr("duetime.scheduler.worker.broker.PREEMPTION_INTERVAL_S", 0.0)
    return Room()


@pytest.fixture
def kept(queue: MemoryQueue, target: Desk, clock: Clock, room: Room) -> DispatchBroker:
    """Keep one of its three threads for critical and high runs."""
    return DispatchBroker(
        queue,
        target,
        TakeOptions("w", THREAD_COUNT, 10_000, headroom=HeadroomParts(0, 0.34)),
        preemption=cast("Preemption", room),
        middleware=[],
        clock=clock,
    )


def test_a_worker_reports_its_threads_and_takes_nothing_for_those_that_are_kept(
    kept: DispatchBroker, queue: MemoryQueue, clock: Clock, room: Room
) -> None:
    put(queue, clock, 9)
    assert kept.take(0) == ["r0", "r1"]
    assert queue.stats().threads == {"w": ThreadUse(3, 2, (0, 0, 1, 1, 1), 3)}
    assert kept.take(0) == []
    assert room.seen == [ThreadUse(3, 2, (0, 0, 1, 1, 1), 3)]
    queue.put([Entry("high", clock.ms + 99, tier=2)])
    assert kept.take(0) == ["high"]
    assert kept.take(0) == []
    assert room.seen[-1] == ThreadUse(3, 3, (0, 0, 1, 1, 1), 3), "no thread is left"


def test_a_thread_that_comes_back_ends_the_wait_for_urgent_runs(
    kept: DispatchBroker, queue: MemoryQueue, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duetime.scheduler.worker.broker.PREEMPTION_INTERVAL_S", 60.0)
    put(queue, clock, 9)
    assert kept.take(0) == ["r0", "r1"]
    taken: list[str] = []
    waiting = threading.Thread(target=lambda: taken.extend(kept.take(0) + kept.take(0)), daemon=True)
    waiting.start()
    eventually(lambda: kept.idle._call_above < THREAD_COUNT, "it to wait")
    kept.idle.give(1)
    waiting.join(60)
    assert taken == ["r2"]


def test_a_worker_reports_the_threads_that_its_machine_cannot_spare(
    queue: MemoryQueue, target: Desk, clock: Clock, room: Room
) -> None:
    allowed = [2]
    options = TakeOptions("w", THREAD_COUNT, 10_000, allowance=lambda _: allowed[0])
    broker = DispatchBroker(queue, target, options, preemption=cast("Preemption", room), middleware=[], clock=clock)
    put(queue, clock, 9)
    assert broker.take(0) == ["r0", "r1"]
    assert queue.stats().threads == {"w": ThreadUse(3, 2, preempted=3, withheld=1)}
    assert broker.take(0) == []
    assert room.seen == [ThreadUse(3, 2, preempted=3, withheld=1)], "one that gives way lets another start"
    allowed[0] = 1
    assert broker.take(0) == []
    allowed[0] = 0
    broker.idle.give(2)
    assert broker.take(0) == []
    assert room.reported == [ThreadUse(3, 2, preempted=3, withheld=1), ThreadUse(3, 0, preempted=3, withheld=3)]
    assert len(room.seen) == 1, "nobody gives way where nothing starts in its place"


def test_a_report_of_threads_is_known_to_the_queue(queue: MemoryQueue) -> None:
    Preemption(queue, ActiveRuns(), worker="w").report(ThreadUse(3, 2, withheld=1))
    assert queue.stats().threads == {"w": ThreadUse(3, 2, withheld=1)}


def test_a_node_under_pressure_that_uses_one_thread_keeps_none(queue: MemoryQueue, target: Desk, clock: Clock) -> None:
    put(queue, clock, 2)
    broker = DispatchBroker(
        queue,
        target,
        TakeOptions("w", THREAD_COUNT, 10_000, headroom=HeadroomParts(0, 0.34), allowance=lambda _: 1),
        middleware=[],
        clock=clock,
    )
    assert broker.take(0) == ["r0"]


def test_threads_that_come_back_from_brief_runs_are_given_new_ones_together(monkeypatch: pytest.MonkeyPatch) -> None:
    idle = ThreadCapacity(3)
    idle.take_all(0)
    idle.give_back(0)
    monkeypatch.setattr(idle._changed, "wait", lambda _: idle.give(1))  # another comes during the wait
    idle.give(1)

    assert idle.take_all(0) == 3


def test_a_thread_that_comes_back_from_a_long_run_is_given_a_new_one_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    idle = ThreadCapacity(3)
    idle.take_all(0)
    monkeypatch.setattr(idle._changed, "wait", lambda _: idle.give(1))
    idle.give(1)

    assert idle.take_all(0) == 1
