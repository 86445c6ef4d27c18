"""A random walk over few pools of slots, held by willing runs and wanted by urgent ones; see test_random_walk.py.

About one step in 40 requests runs to yield; in the other walk one in 1,000 does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from duetime.scheduler.queue import Entry, Kind, Limits, QueueLost
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.queue.redis.queue import RedisQueue

from tests.contracts.queue.suite import Clock
from tests.contracts.queue.test_random_walk import SEEDS, STEP_COUNT, Walk

POOLS = ["cpu", "gpu", "tpm"]
MADE_ON_USE = "key:1"


class PreemptionWalk(Walk):
    """Leases last, pools are small, and most looks are for units."""

    requests = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.weighted |= {self.runs_to_preempt: 20, self.take: 20, self.put: 12, self.set_pool: 1, self.finish: 9}
        self.weighted |= {self.advance_long: 0.1, self.reap: 0.5, self.rebuild: 0.04, self.set_back: 0.2}

    def entry(self) -> Entry:
        names = self.chance.sample([*POOLS, MADE_ON_USE], self.chance.choice([1, 1, 1, 2, 3, 0]))
        needs = {name: 1 if name == MADE_ON_USE else self.chance.choice([1, 1, 2, 3]) for name in names}
        return replace(super().entry(), needs=needs, tier=self.chance.choice([1, 2, 3, 4, 5, 5, 5]))

    def some_limits(self) -> Limits:
        found = super().some_limits()
        if self.chance.random() < 0.2:
            return found
        return replace(found, kind=Kind.SLOTS, capacity=self.chance.choice([2.0, 4.0, 6.0, 10.0]), steps=())

    def set_pool(self) -> None:
        name, limits = self.chance.choice(POOLS), self.some_limits()
        if self.both("set_pool", name, limits) is not QueueLost:
            self.limits[name] = limits

    def both(self, name: str, *args: Any, **named: Any) -> Any:
        found = super().both(name, *args, **named)
        self.requests += name == "runs_to_preempt" and found is not QueueLost and len(found) > 0
        return found


@pytest.mark.random_walk
@pytest.mark.parametrize("seed", SEEDS)
def test_both_queues_preempt_the_same_runs(valkey_url: str, seed: int) -> None:
    clock = Clock()
    redis = RedisQueue(valkey_url, namespace=f"walk-{uuid4().hex}", clock=clock)
    try:
        walk = PreemptionWalk(seed, clock, MemoryQueue(clock), redis)
        walk.go(STEP_COUNT // 3)
        assert STEP_COUNT < 3000 or walk.requests, "nothing was compared"
    finally:
        redis.close()
