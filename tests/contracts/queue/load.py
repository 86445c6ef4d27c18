"""A `DispatchQueue` under random load."""

from __future__ import annotations

import random

import pytest
from duetime.scheduler.queue import DispatchQueue

from tests.contracts.queue.case import Clock, QueueCase, slots


class LoadContract(QueueCase):
    """All together."""

    @pytest.mark.parametrize("seed", range(8))
    def test_a_random_load_is_never_over_a_pool_and_nothing_is_stranded(
        self, queue: DispatchQueue, clock: Clock, seed: int
    ) -> None:
        chance = random.Random(seed)
        caps = {"a": 3, "b": 5, "c": 2}
        for name, cap in caps.items():
            queue.set_pool(name, slots(cap))
        needs = {
            f"r{i:03}": {pool: chance.randint(1, caps[pool]) for pool in chance.sample("abc", chance.randint(0, 3))}
            for i in range(300)
        }
        queue.put([self.entry(clock, run_id, chance.randint(0, 10**6), need) for run_id, need in needs.items()])
        running: list[str] = []
        done: set[str] = set()
        for _ in range(3000):
            running += self.taken(queue, chance.randint(1, 4), lease=1e9)
            for name, cap in caps.items():
                assert sum(needs[run_id].get(name, 0) for run_id in running) <= cap
            if running:
                run_id = running.pop(chance.randrange(len(running)))
                if chance.random() < 0.1:
                    assert self.give_back(queue, run_id)
                else:
                    assert self.finish(queue, run_id)
                    done.add(run_id)
        assert done == needs.keys()
