"""The queue in memory keeps the contract of `DispatchQueue`, and its memory small."""

from __future__ import annotations

import pytest
from duetime.scheduler.queue import DispatchQueue, Entry, Finish
from duetime.scheduler.queue.memory.classes import RunClasses
from duetime.scheduler.queue.memory.lazy_heap import LazyHeap
from duetime.scheduler.queue.memory.pool import LivePool
from duetime.scheduler.queue.memory.queue import MemoryQueue

from tests.contracts.queue.case import slots
from tests.contracts.queue.suite import LEASE_MS, Clock, QueueContract


class TestMemoryQueue(QueueContract):
    """Runs the suite."""

    @pytest.fixture
    def queue(self, clock: Clock) -> DispatchQueue:
        return MemoryQueue(clock)


def count(monkeypatch: pytest.MonkeyPatch, of: type, name: str, calls: list[str]) -> None:
    """Note each call of a method."""
    real = getattr(of, name)

    def counted(self: object, *args: object) -> object:
        calls.append(name)
        return real(self, *args)

    monkeypatch.setattr(of, name, counted)


def test_a_hundred_thousand_blocked_runs_cost_a_take_nothing(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A counter in place of a stopwatch: how often a take looks at a class, or asks a pool what it lacks."""
    queue = MemoryQueue(clock)
    queue.set_pool("gpu", slots(1))
    queue.put([Entry(f"r{i:06}", clock.ms + 1e9 + i, needs={"gpu": 1, f"t{i % 500}": 1}) for i in range(100_000)])
    for i in range(500):
        queue.set_pool(f"t{i}", slots(1))
    (first,) = queue.take("w", 1, LEASE_MS).grants
    while queue.take("w", 9, LEASE_MS).hint == 0:
        pass
    assert queue.stats().parked == 99_999
    looks: list[str] = []
    count(monkeypatch, LivePool, "lacks", looks)
    count(monkeypatch, RunClasses, "class_of", looks)
    queue.take("w", 9, LEASE_MS)
    assert looks == []
    queue.finish("w", [Finish(first.run_id, first.token)])
    assert len(queue.take("w", 9, LEASE_MS).grants) == 1
    assert len(looks) < 200


def test_to_count_what_is_ahead_costs_what_is_ahead_and_not_what_is_behind() -> None:
    asked: list[tuple[int]] = []

    def is_odd(item: tuple[int]) -> bool:
        asked.append(item)
        return item[0] % 2 == 1

    heap = LazyHeap[tuple[int]](is_odd)
    for i in range(20_000):
        heap.push((i * 7919 % 20_000,))
    heap.push((7,))
    asked.clear()
    assert heap.before((41,), 1000) == 20
    assert len(asked) < 100
    assert heap.before((20_000,), 1000) == 1000
    assert len(asked) < 5000


def test_pools_made_on_use_are_forgotten(clock: Clock) -> None:
    queue = MemoryQueue(clock)
    for i in range(200):
        queue.put(
            [Entry(f"r{i}", clock.ms, needs={f"key:{i}": 1}), Entry(f"x{i}", clock.ms + 1, needs={f"key:{i}": 1})]
        )
        (grant,) = queue.take("w", 9, LEASE_MS).grants
        queue.finish("w", [Finish(grant.run_id, grant.token)])
        queue.cancel(f"x{i}")
    assert len(queue._state.pools.all()) == 0


def test_a_run_that_is_moved_often_leaves_nothing_behind(clock: Clock) -> None:
    queue = MemoryQueue(clock)
    queue.put([Entry("r", clock.ms, needs={"unknown": 1})])
    for i in range(1000):
        queue.take("w", 1, LEASE_MS)
        queue.rescore("r", clock.ms - i)
    queue.take("w", 1, LEASE_MS)
    (cls,) = queue._state._waiting.classes()
    (pool,) = queue._state.pools.all()
    (size,) = pool.sizes.values()
    assert len(cls.runs) < 100
    assert len(size.heads) < 100


@pytest.fixture
def clock() -> Clock:
    return Clock()
