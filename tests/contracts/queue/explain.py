"""Explanations that a `DispatchQueue` gives, and wake-ups that it sends."""

from __future__ import annotations

import time
from threading import Thread

from duetime.scheduler.queue import (
    MAX_RUNS_COUNTED_AHEAD,
    DispatchQueue,
    Explanation,
    Kind,
    Limits,
    PoolUse,
    QueueChange,
    Report,
    Shortage,
    Take,
    Why,
)

from tests.contracts.queue.case import LEASE_MS, Clock, QueueCase, slots


class TellingContract(QueueCase):
    """Statistics, explanations and wake-ups."""

    def test_stats_count_where_runs_stand(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(1))
        queue.put([self.entry(clock, f"g{i}", i, {"gpu": 1}) for i in range(3)])
        queue.put([self.entry(clock, "later", after=9000), self.entry(clock, "next", 50)])
        assert self.taken(queue, 1) == ["g0"]
        assert self.taken(queue, 1) == ["next"]
        queue.put([self.entry(clock, "waits", 60)])
        stats = queue.stats()
        assert (stats.waiting, stats.delayed, stats.parked, stats.leased) == ((0, 0, 1, 0, 0), 1, 2, 2)
        assert stats.pools == {"gpu": PoolUse(1, 1, 0, 0, 1, 2, "admitting")}

    def test_stats_say_of_a_pool_that_admits_nothing_why_and_until_when(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        opens = clock.ms + 3000
        queue.set_pool("night", Limits(Kind.SLOTS, 0, steps=((clock.ms + 1000, 0), (opens, 2), (clock.ms + 9000, 0))))
        queue.set_pool("none", slots(0))
        queue.set_pool("busy", slots(4))
        queue.set_pool("down", slots(4, failures=1, cooldown=5000))
        queue.put([self.entry(clock, name, 0, {name: 1}) for name in ("busy", "down")])
        assert self.taken(queue) == ["busy", "down"]
        self.finish(queue, "busy", reports=(Report("busy", throttled=True, retry_after=7000),))
        self.finish(queue, "down", reports=(Report("down", ok=False),))
        assert {name: (use.state, use.until) for name, use in queue.stats().pools.items()} == {
            "night": ("closed", opens),
            "none": ("closed", None),
            "busy": ("stopped", clock.ms + 7000),
            "down": ("tripped", clock.ms + 5000),
        }
        clock.ms = opens
        assert (self.pool(queue, "night").state, self.pool(queue, "night").until) == ("admitting", None)
        clock.ms += 2000
        assert (self.pool(queue, "down").state, self.pool(queue, "down").until) == ("probing", None)

    def test_explain_names_the_pool_that_is_lacking(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(2))
        queue.put([self.entry(clock, "runs", 0, {"gpu": 1}), self.entry(clock, "held", 1, {"gpu": 2})])
        assert self.taken(queue) == ["runs"]
        lacking = Shortage("gpu", Why.SHORT, needed=2, free=1, capacity=2, holders=("runs",))
        assert queue.explain("held") == Explanation("parked", shortage=lacking)
        assert queue.explain("runs") == Explanation("leased", worker="w", not_before=clock.ms + LEASE_MS)
        assert queue.explain("unknown") is None

    def test_a_change_between_take_and_wait_is_not_slept_over(self, queue: DispatchQueue, clock: Clock) -> None:
        generation = queue.take("w", 1, LEASE_MS).generation
        queue.put([self.entry(clock, "a")])
        self.returns(lambda: queue.wait(generation, 60))

    def test_a_take_that_awaits_a_change_takes_what_came(self, queue: DispatchQueue, clock: Clock) -> None:
        began = time.monotonic()
        generation = queue.take("w", 1, LEASE_MS).generation
        taken: list[Take] = []

        def take() -> None:
            while not taken or not taken[-1].grants:
                taken.append(queue.take("w", 1, LEASE_MS, nonce=f"n{len(taken)}", after=QueueChange(generation, 60)))

        waiting = Thread(target=take, daemon=True)
        waiting.start()
        queue.put([self.entry(clock, "a"), self.entry(clock, "b", 1)])
        waiting.join(120)
        assert taken[-1].run_ids == ("a",)
        assert queue.take("w", 1, LEASE_MS, nonce=f"n{len(taken) - 1}").grants == taken[-1].grants
        assert began <= (taken[-1].asked_at or began) <= time.monotonic()
        self.returns(lambda: queue.wait(generation, 60))
        assert queue.take("w", 9, LEASE_MS).run_ids == ("b",)

    def test_a_take_that_awaits_a_change_ends_without_one(self, queue: DispatchQueue, clock: Clock) -> None:
        before = queue.take("w", 1, LEASE_MS)
        assert queue.take("w", 1, LEASE_MS, nonce="n", after=QueueChange(before.generation, 0.05)).grants == ()
        queue.put([self.entry(clock, "a")])
        assert queue.take("w", 1, LEASE_MS, nonce="o", after=QueueChange(before.generation, 60)).run_ids == ("a",)

    def test_a_call_to_wake_ends_a_take_that_awaits_a_change(self, queue: DispatchQueue) -> None:
        after = QueueChange(queue.take("w", 1, LEASE_MS).generation, 60)
        queue.wake()
        self.returns(lambda: queue.take("w", 1, LEASE_MS, nonce="n", after=after))

    def test_a_put_wakes_every_waiting_consumer(self, queue: DispatchQueue, clock: Clock) -> None:
        generations = [queue.take(f"w{i}", 1, LEASE_MS).generation for i in range(3)]
        waiting = [Thread(target=queue.wait, args=(generation, 60), daemon=True) for generation in generations]
        for thread in waiting:
            thread.start()
        queue.put([self.entry(clock, "a")])
        for thread in waiting:
            thread.join(120)
        assert not any(thread.is_alive() for thread in waiting)

    def test_a_released_pool_and_a_call_to_wake_end_a_wait(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(1))
        queue.put([self.entry(clock, f"r{i}", i, {"gpu": 1}) for i in range(2)])
        generation = self.take(queue, 2).generation
        self.finish(queue, "r0")
        self.returns(lambda: queue.wait(generation, 60))
        generation = self.take(queue, 2).generation
        queue.wake()
        self.returns(lambda: queue.wait(generation, 60))

    def test_explain_counts_so_many_ahead_and_no_more(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.entry(clock, f"r{i:05}", i) for i in range(MAX_RUNS_COUNTED_AHEAD + 2)])
        last = [queue.explain(f"r{i:05}") for i in range(MAX_RUNS_COUNTED_AHEAD - 1, MAX_RUNS_COUNTED_AHEAD + 2)]
        assert [found.ahead for found in last if found] == [
            MAX_RUNS_COUNTED_AHEAD - 1,
            MAX_RUNS_COUNTED_AHEAD,
            MAX_RUNS_COUNTED_AHEAD,
        ]

    def test_explain_says_how_many_of_its_class_go_first(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(1))
        queue.put([self.entry(clock, f"r{i}", 1e6 + i, {"gpu": 1}) for i in range(5)])
        queue.put([self.entry(clock, "other", 0), self.entry(clock, "later", after=5000)])
        found = queue.explain("r3")
        assert found is not None
        assert (found.status, found.ahead) == ("waiting", 3)
        assert self.taken(queue) == ["other", "r0"]
        assert queue.rescore("r4", clock.ms)
        assert self.taken(queue) == []
        found = queue.explain("r3")
        assert found is not None
        assert (found.status, found.ahead) == ("parked", 3)
        delayed = queue.explain("later")
        assert delayed is not None
        assert (delayed.status, delayed.not_before) == ("delayed", clock.ms + 5000)
