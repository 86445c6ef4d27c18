"""What every `DispatchQueue` promises: subclass `QueueContract` and give it a `queue` fixture made from `clock`."""

from __future__ import annotations

import random
from collections.abc import Mapping
from threading import Thread

import pytest
from duetime.scheduler.queue import Cancelled, DispatchQueue, Entry

LEASE = 10_000.0


class Clock:
    """Milliseconds that only move when told to."""

    def __init__(self) -> None:
        self.ms = 1_800_000_000_000.0

    def __call__(self) -> float:
        return self.ms


class QueueContract:
    """The promises. Nothing here waits for a clock of the world, but for the threads of the wake-up tests."""

    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    def entry(
        self, clock: Clock, run_id: str, key: float = 0, needs: Mapping[str, int] | None = None, *, after: float = 0
    ) -> Entry:
        return Entry(run_id, clock.ms + key, needs=needs or {}, not_before=clock.ms + after if after else 0)

    def taken(self, queue: DispatchQueue, n: int = 99, worker: str = "w") -> list[str]:
        return list(queue.take(worker, n, LEASE).run_ids)

    # Order

    def test_runs_are_handed_out_by_key(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.entry(clock, "b", 200), self.entry(clock, "a", 100), self.entry(clock, "c", 300)])
        assert self.taken(queue) == ["a", "b", "c"]

    def test_equal_keys_go_by_run_id(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.entry(clock, f"r{i:02}") for i in reversed(range(20))])
        assert self.taken(queue) == [f"r{i:02}" for i in range(20)]

    def test_a_take_gives_at_most_what_was_asked_for(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.entry(clock, f"r{i}", i) for i in range(5)])
        assert self.taken(queue, 2) == ["r0", "r1"]
        assert self.taken(queue, 2) == ["r2", "r3"]

    def test_classes_are_merged_by_key(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", 9)
        queue.put([self.entry(clock, f"r{i}", i, {"gpu": 1} if i % 2 else {}) for i in range(6)])
        assert self.taken(queue) == [f"r{i}" for i in range(6)]

    def test_putting_twice_adds_once(self, queue: DispatchQueue, clock: Clock) -> None:
        assert queue.put([self.entry(clock, "a")]) == 1
        assert queue.put([self.entry(clock, "a"), self.entry(clock, "b", 1)]) == 1
        assert self.taken(queue) == ["a", "b"]

    def test_a_finished_run_can_be_put_again(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.entry(clock, "a")])
        assert self.taken(queue) == ["a"]
        assert queue.finish("w", "a")
        assert queue.put([self.entry(clock, "a")]) == 1
        assert self.taken(queue) == ["a"]

    def test_a_run_put_while_leased_comes_back_when_the_lease_is_finished(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.put([self.entry(clock, "a")])
        assert self.taken(queue) == ["a"]
        queue.put([self.entry(clock, "a", 5)])
        assert self.taken(queue) == []
        queue.finish("w", "a")
        assert self.taken(queue) == ["a"]
        queue.finish("w", "a")
        assert self.taken(queue) == []

    # Delays

    def test_a_delayed_run_waits_for_its_time_and_the_take_says_how_long(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.put([self.entry(clock, "later", after=5000), self.entry(clock, "now")])
        take = queue.take("w", 9, LEASE)
        assert take.run_ids == ("now",)
        assert take.hint == pytest.approx(5.0)
        clock.ms += 5000
        assert self.taken(queue) == ["later"]
        assert queue.take("w", 9, LEASE).hint is None

    def test_a_cancelled_delayed_run_never_comes(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.entry(clock, "later", after=5000)])
        assert queue.cancel("later") is Cancelled.REMOVED
        clock.ms += 9000
        assert self.taken(queue) == []

    # Pools

    def test_a_pool_limits_how_many_run_at_once(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", 2)
        queue.put([self.entry(clock, f"r{i}", i, {"gpu": 1}) for i in range(5)])
        assert self.taken(queue) == ["r0", "r1"]
        assert self.taken(queue) == []
        queue.finish("w", "r0")
        assert self.taken(queue) == ["r2"]

    def test_what_lacks_a_pool_is_stepped_over(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", 1)
        queue.put([*(self.entry(clock, f"g{i:03}", i, {"gpu": 1}) for i in range(300)), self.entry(clock, "free", 999)])
        assert self.taken(queue) == ["g000", "free"]

    def test_all_pools_of_a_run_are_reserved_or_none(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("a", 1)
        queue.set_pool("b", 1)
        both = self.entry(clock, "ab", 1, {"a": 1, "b": 1})
        queue.put([self.entry(clock, "b", 0, {"b": 1}), both, self.entry(clock, "a", 2, {"a": 1})])
        assert self.taken(queue) == ["b", "a"]
        queue.finish("w", "a")
        assert self.taken(queue) == []
        queue.finish("w", "b")
        assert self.taken(queue) == ["ab"]

    def test_a_run_that_needs_more_than_there_is_is_held_until_there_is(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.set_pool("gpu", 2)
        queue.put([self.entry(clock, "big", 0, {"gpu": 3}), self.entry(clock, "odd", 1, {"unknown": 1})])
        assert self.taken(queue) == []
        queue.set_pool("gpu", 3)
        assert self.taken(queue) == ["big"]
        queue.set_pool("unknown", 1)
        assert self.taken(queue) == ["odd"]

    def test_a_shrunk_pool_grants_nothing_until_it_has_room_again(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", 2)
        queue.put([self.entry(clock, f"r{i}", i, {"gpu": 1}) for i in range(4)])
        assert self.taken(queue) == ["r0", "r1"]
        queue.set_pool("gpu", 1)
        queue.finish("w", "r0")
        assert self.taken(queue) == []
        queue.finish("w", "r1")
        assert self.taken(queue) == ["r2"]

    def test_a_smaller_run_put_before_a_parked_one_starts(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", 4)
        queue.put([self.entry(clock, "runs", -9, {"gpu": 2}), self.entry(clock, "big", 5, {"gpu": 4})])
        assert self.taken(queue) == ["runs"]
        queue.put([self.entry(clock, "small", 1, {"gpu": 1})])
        assert self.taken(queue) == ["small"]

    def test_cancelling_a_parked_head_lets_the_next_one_start(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", 4)
        queue.put(
            [
                self.entry(clock, name, i, {"gpu": units})
                for i, (name, units) in enumerate([("r", 2), ("b", 4), ("s", 1)])
            ]
        )
        assert self.taken(queue) == ["r"]
        queue.cancel("b")
        assert self.taken(queue) == ["s"]

    def test_a_release_reaches_a_class_behind_one_that_still_does_not_fit(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.set_pool("gpu", 2)
        queue.set_pool("net", 1)
        queue.put([self.entry(clock, "hold", 0, {"gpu": 2}), self.entry(clock, "net", 0, {"net": 1})])
        assert self.taken(queue) == ["hold", "net"]
        queue.put([self.entry(clock, "both", 1, {"gpu": 1, "net": 1}), self.entry(clock, "one", 2, {"gpu": 1})])
        assert self.taken(queue) == []
        queue.finish("w", "hold")
        assert self.taken(queue) == ["one"]

    # Leases

    def test_only_the_holder_finishes_renews_or_gives_back(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.entry(clock, "a")])
        assert self.taken(queue, worker="w1") == ["a"]
        assert not queue.finish("w2", "a")
        assert not queue.give_back("w2", "a")
        assert queue.renew("w2", ["a"], LEASE) == {"a"}
        assert queue.finish("w1", "a")
        assert not queue.finish("w1", "a")

    def test_a_renewed_lease_lasts_and_an_expired_one_is_reaped(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.entry(clock, "a")])
        self.taken(queue)
        clock.ms += LEASE - 1
        assert queue.renew("w", ["a"], LEASE) == set()
        clock.ms += LEASE - 1
        assert queue.reap() == []
        clock.ms += 1
        assert queue.reap() == ["a"]
        assert queue.reap() == []
        assert not queue.finish("w", "a")
        assert self.taken(queue) == []

    def test_reaping_releases_the_pools(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", 1)
        queue.put([self.entry(clock, f"r{i}", i, {"gpu": 1}) for i in range(2)])
        assert self.taken(queue) == ["r0"]
        clock.ms += LEASE
        assert queue.reap() == ["r0"]
        assert self.taken(queue) == ["r1"]

    def test_a_run_given_back_keeps_its_place(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", 1)
        queue.put([self.entry(clock, f"r{i}", i, {"gpu": 1}) for i in range(3)])
        assert self.taken(queue) == ["r0"]
        assert queue.give_back("w", "r0")
        assert self.taken(queue) == ["r0"]

    def test_a_run_given_back_for_later_lets_others_go_first(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.entry(clock, "a"), self.entry(clock, "b", 1)])
        assert self.taken(queue, 1) == ["a"]
        queue.give_back("w", "a", not_before=clock.ms + 1000)
        assert self.taken(queue) == ["b"]
        clock.ms += 1000
        assert self.taken(queue) == ["a"]

    # Changes

    def test_cancel_tells_what_it_found(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.entry(clock, "a"), self.entry(clock, "b", 1)])
        assert queue.cancel("a") is Cancelled.REMOVED
        assert queue.cancel("a") is Cancelled.ABSENT
        assert self.taken(queue) == ["b"]
        assert queue.cancel("b") is Cancelled.LEASED

    def test_a_new_key_moves_a_waiting_run_both_ways(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.entry(clock, name, i) for i, name in enumerate("abcd")])
        assert queue.rescore("d", clock.ms - 1)
        assert queue.rescore("a", clock.ms + 99)
        assert self.taken(queue) == ["d", "b", "c", "a"]
        assert not queue.rescore("a", clock.ms)
        assert not queue.rescore("unknown", clock.ms)

    # What it tells

    def test_stats_count_where_runs_stand(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", 1)
        queue.put([self.entry(clock, f"g{i}", i, {"gpu": 1}) for i in range(3)])
        queue.put([self.entry(clock, "later", after=9000), self.entry(clock, "next", 50)])
        assert self.taken(queue, 1) == ["g0"]
        assert self.taken(queue, 1) == ["next"]
        queue.put([self.entry(clock, "waits", 60)])
        stats = queue.stats()
        assert (stats.waiting, stats.delayed, stats.parked, stats.leased) == (1, 1, 2, 2)
        assert stats.pools == {"gpu": (1, 1)}

    def test_explain_names_the_pool_that_is_lacking(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", 2)
        queue.put([self.entry(clock, "runs", 0, {"gpu": 1}), self.entry(clock, "held", 1, {"gpu": 2})])
        assert self.taken(queue) == ["runs"]
        found = queue.explain("held")
        assert found is not None
        assert (found.status, found.pool, found.needed, found.free, found.capacity) == ("parked", "gpu", 2, 1, 2)
        leased = queue.explain("runs")
        assert leased is not None
        assert leased.status == "leased"
        assert queue.explain("unknown") is None

    # Waking up

    def test_a_change_between_take_and_wait_is_not_slept_over(self, queue: DispatchQueue, clock: Clock) -> None:
        generation = queue.take("w", 1, LEASE).generation
        queue.put([self.entry(clock, "a")])
        self.returns(lambda: queue.wait(generation, 60))

    def test_every_waiting_consumer_hears_of_a_put(self, queue: DispatchQueue, clock: Clock) -> None:
        generations = [queue.take(f"w{i}", 1, LEASE).generation for i in range(3)]
        waiting = [Thread(target=queue.wait, args=(generation, 60), daemon=True) for generation in generations]
        for thread in waiting:
            thread.start()
        queue.put([self.entry(clock, "a")])
        for thread in waiting:
            thread.join(10)
        assert not any(thread.is_alive() for thread in waiting)

    def test_a_released_pool_and_a_call_to_wake_end_a_wait(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", 1)
        queue.put([self.entry(clock, f"r{i}", i, {"gpu": 1}) for i in range(2)])
        generation = queue.take("w", 2, LEASE).generation
        queue.finish("w", "r0")
        self.returns(lambda: queue.wait(generation, 60))
        generation = queue.take("w", 2, LEASE).generation
        queue.wake()
        self.returns(lambda: queue.wait(generation, 60))

    def returns(self, call: object) -> None:
        assert callable(call)
        thread = Thread(target=call, daemon=True)
        thread.start()
        thread.join(10)
        assert not thread.is_alive()

    # All together

    @pytest.mark.parametrize("seed", range(8))
    def test_a_random_load_is_never_over_a_pool_and_nothing_is_stranded(
        self, queue: DispatchQueue, clock: Clock, seed: int
    ) -> None:
        chance = random.Random(seed)
        caps = {"a": 3, "b": 5, "c": 2}
        for name, cap in caps.items():
            queue.set_pool(name, cap)
        needs = {
            f"r{i:03}": {pool: chance.randint(1, caps[pool]) for pool in chance.sample("abc", chance.randint(0, 3))}
            for i in range(300)
        }
        queue.put([self.entry(clock, run_id, chance.randint(0, 10**6), need) for run_id, need in needs.items()])
        running: list[str] = []
        done: set[str] = set()
        for _ in range(3000):
            running += queue.take("w", chance.randint(1, 4), 1e9).run_ids
            for name, cap in caps.items():
                assert sum(needs[run_id].get(name, 0) for run_id in running) <= cap
            if running:
                run_id = running.pop(chance.randrange(len(running)))
                if chance.random() < 0.1:
                    assert queue.give_back("w", run_id)
                else:
                    assert queue.finish("w", run_id)
                    done.add(run_id)
        assert done == needs.keys()
