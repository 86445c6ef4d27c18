"""The queue in memory keeps the contract of `DispatchQueue`."""

from __future__ import annotations

import pytest
from duetime.scheduler.queue import DispatchQueue, Entry, MemoryQueue

from tests.contracts.queue.suite import LEASE, Clock, QueueContract


class TestMemoryQueue(QueueContract):
    """Runs the suite."""

    @pytest.fixture
    def queue(self, clock: Clock) -> DispatchQueue:
        return MemoryQueue(clock)

    def test_many_blocked_classes_cost_a_take_one_look_each(self, queue: DispatchQueue, clock: Clock) -> None:
        """A counter in place of a stopwatch: parked classes are not looked at again until their pool has room."""
        queue.set_pool("gpu", 1)
        queue.put([Entry(f"r{i:04}", clock.ms + i, needs={"gpu": 1, f"tenant-{i}": 1}) for i in range(2000)])
        for i in range(2000):
            queue.set_pool(f"tenant-{i}", 1)
        assert queue.take("w", 9, LEASE).run_ids == ("r0000",)
        assert isinstance(queue, MemoryQueue)
        assert queue._heads == []
        queue.finish("w", "r0000")
        assert len(queue._heads) == 1
        assert queue.take("w", 9, LEASE).run_ids == ("r0001",)
