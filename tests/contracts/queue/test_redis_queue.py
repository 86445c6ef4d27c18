"""The queue in Redis keeps the contract of `DispatchQueue`, and what is promised of its scripts beyond it."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest
from duetime.scheduler.queue import DispatchQueue
from duetime.scheduler.queue.redis import RedisQueue

from tests.contracts.queue.suite import Clock, QueueContract


class TestRedisQueue(QueueContract):
    """Runs the suite on a real server, on a clock that only moves when told to."""

    @pytest.fixture
    def queue(self, clock: Clock, valkey_url: str) -> Iterator[DispatchQueue]:
        queue = RedisQueue(valkey_url, namespace=f"suite-{uuid4().hex}", clock=clock)
        assert queue.begin_rebuild("suite")
        assert queue.end_rebuild("suite")
        yield queue
        queue.close()
