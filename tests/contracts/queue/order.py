"""In which order a `DispatchQueue` hands out runs, and what changes it."""

from __future__ import annotations

import pytest
from duetime.scheduler.queue import Cancelled, DispatchQueue

from tests.contracts.queue.case import LEASE_MS, Clock, QueueCase, slots


class OrderContract(QueueCase):
    """Keys, delays and changes."""

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
        queue.set_pool("gpu", slots(9))
        queue.put([self.entry(clock, f"r{i}", i, {"gpu": 1} if i % 2 else {}) for i in range(6)])
        assert self.taken(queue) == [f"r{i}" for i in range(6)]

    def test_putting_twice_adds_once(self, queue: DispatchQueue, clock: Clock) -> None:
        assert queue.put([self.entry(clock, "a")]) == 1
        assert queue.put([self.entry(clock, "a"), self.entry(clock, "b", 1)]) == 1
        assert self.taken(queue) == ["a", "b"]

    def test_a_run_that_comes_to_need_something_else_keeps_nobody_of_its_old_class_waiting(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.set_pool("gpu", slots(9))
        queue.set_pool("closed", slots(0))
        queue.put([self.entry(clock, f"r{i}", i, {"gpu": 1}) for i in range(4)])
        assert queue.cancel("r2") is Cancelled.REMOVED
        queue.put([self.entry(clock, "r2", 2, {"closed": 1})])
        assert self.taken(queue) == ["r0", "r1", "r3"]

    def test_a_run_that_is_put_with_other_needs_takes_its_place_among_those_that_have_them(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.set_pool("gpu", slots(9))
        queue.set_pool("one", slots(1))
        queue.put([self.entry(clock, f"r{i}", i, {"gpu": 1}) for i in range(3)])
        moved = [self.entry(clock, f"r{i}", i, {"gpu": 1, "one": 1}) for i in range(3)]
        assert queue.put([*moved, self.entry(clock, "new", 3)]) == 1
        assert self.taken(queue) == ["r0", "new"], "one at a time now"
        assert queue.put([self.entry(clock, "r2", 2)]) == 0
        assert self.taken(queue) == ["r2"], "it needs nothing any more"
        assert queue.stats().parked == 1
        assert queue.put([self.entry(clock, "r1", 1, after=500)]) == 0
        assert (queue.stats().parked, queue.stats().delayed) == (0, 1)

    def test_a_run_that_moves_to_another_tier_is_no_run_of_its_old_one(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.put([self.entry(clock, "a", 0, tier=2), self.entry(clock, "b", 1, tier=5)])
        queue.put([self.entry(clock, "a", 0, tier=5)])
        assert queue.stats().waiting == (0, 0, 0, 0, 2)
        assert self.taken(queue) == ["a", "b"]

    def test_a_run_that_moves_holds_no_pool_for_itself_any_more(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(2))
        queue.put([self.entry(clock, "small", -9000, {"gpu": 1})])
        self.taken(queue)
        queue.put([self.entry(clock, "large", -5000, {"gpu": 2}), self.entry(clock, "next", 0, {"gpu": 1})])
        assert self.taken(queue) == [], "the overdue one has a hold"
        queue.put([self.entry(clock, "large", -5000, {"nobody": 1})])
        assert self.taken(queue) == ["next"]

    def test_of_a_run_that_is_put_twice_at_once_the_first_counts(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(1))
        assert queue.put([self.entry(clock, "a", 0), self.entry(clock, "a", 0, {"nobody": 1})]) == 1
        assert self.taken(queue) == ["a"]

    def test_a_finished_run_can_be_put_again(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.entry(clock, "a")])
        assert self.taken(queue) == ["a"]
        assert self.finish(queue, "a")
        assert queue.put([self.entry(clock, "a")]) == 1
        assert self.taken(queue) == ["a"]

    def test_a_run_put_while_leased_comes_back_when_the_lease_is_finished(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.put([self.entry(clock, "a")])
        assert self.taken(queue) == ["a"]
        queue.put([self.entry(clock, "a", 5)])
        assert self.taken(queue) == []
        self.finish(queue, "a")
        assert self.taken(queue) == ["a"]
        self.finish(queue, "a")
        assert self.taken(queue) == []

    def test_a_delayed_run_waits_for_its_time_and_the_take_says_how_long(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.put([self.entry(clock, "later", after=5000), self.entry(clock, "now")])
        take = queue.take("w", 9, LEASE_MS)
        assert take.run_ids == ("now",)
        assert take.hint == pytest.approx(5.0)
        clock.ms += 5000
        assert self.taken(queue) == ["later"]
        assert queue.take("w", 9, LEASE_MS).hint is None

    def test_a_cancelled_delayed_run_never_comes(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.entry(clock, "later", after=5000)])
        assert queue.cancel("later") is Cancelled.REMOVED
        clock.ms += 9000
        assert self.taken(queue) == []

    def test_cancel_returns_what_it_found(self, queue: DispatchQueue, clock: Clock) -> None:
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
