"""The queue in memory keeps the contract of `DispatchQueue`."""

from __future__ import annotations

import pytest
from duetime.scheduler.queue import DispatchQueue, MemoryQueue

from tests.contracts.queue.suite import Clock, QueueContract


class TestMemoryQueue(QueueContract):
    """Runs the suite."""

    @pytest.fixture
    def queue(self, clock: Clock) -> DispatchQueue:
        return MemoryQueue(clock)
