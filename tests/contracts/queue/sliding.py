"""Rates with a sliding window: no window, wherever it begins, sees more starts than it may."""

from __future__ import annotations

from typing import Any

import pytest
from duetime.scheduler.queue import Cancelled, DispatchQueue, Kind, Limits, Report, Why

from tests.contracts.queue.case import LEASE_MS, Clock, QueueCase, slots

WINDOW_MS = 1000.0


def sliding(units: float, burst: float | None = None, **more: Any) -> Limits:
    burst = units if burst is None else burst
    return Limits(Kind.RATE, burst, refill=units / WINDOW_MS, window=WINDOW_MS, window_units=units, **more)


class SlidingContract(QueueCase):
    """A start counts for exactly one window, from when its run began."""

    def some(self, queue: DispatchQueue, clock: Clock, units: int = 1, n: int = 20, *, tier: int = 3) -> None:
        queue.put([self.entry(clock, f"r{tier}.{i:02}", 1e7 + i, {"api": units}, tier=tier) for i in range(n)])

    def test_a_window_starts_what_it_may_at_once_and_each_next_run_when_one_has_left(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.set_pool("api", sliding(3))
        self.some(queue, clock)
        assert self.taken(queue, 1) == ["r3.00"]
        clock.ms += 400
        assert self.taken(queue) == ["r3.01", "r3.02"]
        assert self.patiently(queue, clock) == (600, ["r3.03"])
        assert self.patiently(queue, clock) == (400, ["r3.04", "r3.05"])

    def test_a_run_that_ends_leaves_its_window_no_sooner(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("api", sliding(2))
        self.some(queue, clock)
        assert self.finish(queue, *self.taken(queue))
        clock.ms += WINDOW_MS - 0.25
        assert self.taken(queue) == []
        assert self.patiently(queue, clock)[1] == ["r3.02", "r3.03"]

    def test_a_run_that_began_late_leaves_its_window_late(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("api", sliding(2))
        self.some(queue, clock)
        first, second = self.taken(queue)
        clock.ms += 500
        assert self.finish(queue, first, began_after=300)
        assert self.finish(queue, second, began_after=9e9)
        assert self.patiently(queue, clock) == (800, ["r3.02"])
        assert self.patiently(queue, clock) == (200, ["r3.03"])

    def test_a_use_is_counted_that_began_late_and_was_told_after_its_grant_had_left(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.set_pool("api", sliding(1))
        self.some(queue, clock)
        [first] = self.taken(queue)
        clock.ms += WINDOW_MS
        assert self.finish(queue, first, began_after=900)
        assert self.patiently(queue, clock) == (900, ["r3.01"])

    def test_a_bucket_and_a_window_hold_together(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("api", sliding(4, burst=2))
        self.some(queue, clock)
        assert len(self.taken(queue)) == 2
        assert self.patiently(queue, clock) == (250, ["r3.02"])
        assert self.patiently(queue, clock) == (250, ["r3.03"])
        assert self.patiently(queue, clock) == (500, ["r3.04", "r3.05"])

    def test_units_that_were_not_used_are_free_at_once(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("api", sliding(100))
        self.some(queue, clock, units=50)
        first, second = self.taken(queue)
        clock.ms += 10
        assert self.finish(queue, first, used={"api": 0.0})
        assert self.taken(queue) == ["r3.02"]
        assert self.give_back(queue, second, delay=9e5)
        assert self.taken(queue) == ["r3.03"]
        assert self.pool(queue, "api").free == 0

    def test_over_use_counts_as_long_as_the_rest_and_is_paid_by_the_bucket(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.set_pool("api", sliding(100))
        self.some(queue, clock, units=40)
        first, second = self.taken(queue)
        assert self.finish(queue, second, used={"api": 5.0})
        assert self.finish(queue, first, used={"api": 150.0})
        assert self.pool(queue, "api").free == -55
        assert self.patiently(queue, clock) == (1000, ["r3.02"])

    def test_a_run_of_many_units_waits_until_enough_have_left(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("api", sliding(10))
        queue.put([self.entry(clock, "a", 0, {"api": 3})])
        assert self.taken(queue) == ["a"]
        clock.ms += 200
        queue.put([self.entry(clock, "b", 0, {"api": 4}), self.entry(clock, "all", 1e7, {"api": 10})])
        assert self.taken(queue) == ["b"]
        queue.put([self.entry(clock, "some", 1e6, {"api": 5})])
        assert self.taken(queue) == []
        lacking = self.shortage(queue, "some")
        assert (lacking.why, lacking.free, lacking.helped_at) == (Why.SHORT, 3, clock.ms + 800)
        assert queue.cancel("some") is Cancelled.REMOVED
        assert self.patiently(queue, clock) == (1000, ["all"])

    def test_headroom_is_a_part_of_the_window(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("api", sliding(10, headroom=0.3))
        self.some(queue, clock, tier=3)
        self.some(queue, clock, tier=1)
        low = [run for run in self.taken(queue, 7) if run.startswith("r3")]
        assert len(low) <= 7
        assert self.pool(queue, "api").free == 3
        clock.ms += WINDOW_MS - 1
        assert self.taken(queue) == ["r1.04", "r1.05", "r1.06"]

    @pytest.mark.parametrize(("units", "more"), [(3, 1), (2, 0), (10, 8)])
    def test_a_changed_limit_counts_what_has_started(
        self, queue: DispatchQueue, clock: Clock, units: float, more: int
    ) -> None:
        queue.set_pool("api", sliding(2, burst=2))
        self.some(queue, clock)
        assert len(self.taken(queue)) == 2
        clock.ms += WINDOW_MS / 2
        queue.set_pool("api", Limits(Kind.RATE, 10, refill=1, window=WINDOW_MS, window_units=units))
        clock.ms += WINDOW_MS / 2 - 1
        assert len(self.taken(queue)) == more

    def test_a_longer_window_counts_what_is_still_in_it(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("api", sliding(2))
        self.some(queue, clock)
        assert len(self.taken(queue)) == 2
        queue.set_pool("api", Limits(Kind.RATE, 2, refill=1, window=5 * WINDOW_MS, window_units=2))
        assert self.patiently(queue, clock) == (5000, ["r3.02", "r3.03"])

    def test_a_pool_may_become_one_without_a_window_and_back(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("api", sliding(2))
        self.some(queue, clock)
        assert self.finish(queue, *self.taken(queue))
        queue.set_pool("api", slots(1))
        assert self.taken(queue) == ["r3.02"]
        queue.set_pool("api", sliding(2))
        clock.ms += WINDOW_MS
        assert self.finish(queue, "r3.02")
        assert self.taken(queue) == ["r3.03", "r3.04"]

    def test_a_new_pool_knows_what_its_window_has_seen(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("api", sliding(5), spent=4, empty=True)
        self.some(queue, clock)
        assert len(self.taken(queue)) == 1
        assert self.patiently(queue, clock) == (1000, ["r3.01", "r3.02", "r3.03", "r3.04", "r3.05"])

    def test_a_run_in_progress_counts_from_now_after_a_rebuild(self, queue: DispatchQueue, clock: Clock) -> None:
        assert queue.begin_rebuild("me")
        queue.set_pool("api", sliding(2))
        assert queue.adopt("w", self.entry(clock, "running", 0, {"api": 2}), "token", LEASE_MS)
        assert queue.end_rebuild("me")
        self.some(queue, clock)
        assert self.patiently(queue, clock) == (1000, ["r3.00", "r3.01"])

    @pytest.mark.parametrize("back", [400.0, 1500.0, 3.6e6])
    def test_a_window_goes_on_when_the_clock_is_set_back(self, queue: DispatchQueue, clock: Clock, back: float) -> None:
        queue.set_pool("api", sliding(2))
        self.some(queue, clock)
        assert len(self.taken(queue)) == 2
        clock.ms -= back
        assert self.taken(queue) == []
        late = back if back < 1000 else 0  # a small correction is waited for
        assert self.patiently(queue, clock) == (1000 + late, ["r3.02", "r3.03"])

    def test_a_throttled_window_is_slower(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("api", sliding(10))
        self.some(queue, clock, n=90)
        first, *others = self.taken(queue)
        assert self.finish(queue, *others)
        assert self.finish(queue, first, reports=(Report("api", throttled=True),))
        started = 0
        for _ in range(20):
            clock.ms += WINDOW_MS / 10
            started += len(self.taken(queue))
        assert started < 15

    def test_thousands_of_starts_in_a_window_keep_its_limit(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("api", sliding(3000))
        queue.put([self.entry(clock, f"r{i:04}", i, {"api": 1}) for i in range(4000)])
        for _ in range(100):
            self.taken(queue, 40)
            clock.ms += 1
        assert self.pool(queue, "api").used == 3000
        clock.ms += WINDOW_MS - 101
        assert self.taken(queue, 9) == []
        clock.ms += 1 + WINDOW_MS / 256
        assert len(self.taken(queue, 9)) == 9
