"""A queue of each kind, and workers over it."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest
from duetime.scheduler.queue import DispatchQueue
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.queue.redis.queue import RedisQueue
from duetime.scheduler.store import Store

from tests.builders import Clock
from tests.flow.worker.house import House


@pytest.fixture(params=["memory", "redis"])
def queue(request: pytest.FixtureRequest, clock: Clock) -> Iterator[DispatchQueue]:
    def now() -> float:
        return clock().timestamp() * 1000

    if request.param == "memory":
        yield MemoryQueue(now)
        return
    made = RedisQueue(request.getfixturevalue("valkey_url"), namespace=f"test-{uuid4().hex}", clock=now)
    assert made.begin_rebuild("test")
    assert made.end_rebuild("test")
    yield made
    made.close()


@pytest.fixture
def house(store: Store, queue: DispatchQueue) -> Iterator[House]:
    made = House(store, queue)
    yield made
    made.stop()
