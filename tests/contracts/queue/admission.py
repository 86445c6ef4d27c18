"""Admission by a `DispatchQueue`: all that a run needs, or nothing."""

from __future__ import annotations

from duetime.scheduler.queue import DispatchQueue

from tests.contracts.queue.case import Clock, QueueCase, slots


class AdmissionContract(QueueCase):
    """Pools, parking and waking."""

    def test_a_pool_limits_how_many_run_at_once(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(2))
        queue.put([self.entry(clock, f"r{i}", i, {"gpu": 1}) for i in range(5)])
        assert self.taken(queue) == ["r0", "r1"]
        assert self.taken(queue) == []
        self.finish(queue, "r0")
        assert self.taken(queue) == ["r2"]

    def test_a_run_that_lacks_a_pool_is_stepped_over(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(1))
        queue.put([*(self.entry(clock, f"g{i:03}", i, {"gpu": 1}) for i in range(300)), self.entry(clock, "free", 999)])
        assert self.taken(queue) == ["g000", "free"]

    def test_all_pools_of_a_run_are_reserved_or_none(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("a", slots(1))
        queue.set_pool("b", slots(1))
        both = self.entry(clock, "ab", 1, {"a": 1, "b": 1})
        queue.put([self.entry(clock, "b", 0, {"b": 1}), both, self.entry(clock, "a", 2, {"a": 1})])
        assert self.taken(queue) == ["b", "a"]
        self.finish(queue, "a")
        assert self.taken(queue) == []
        self.finish(queue, "b")
        assert self.taken(queue) == ["ab"]

    def test_a_run_that_needs_more_than_there_is_is_held_until_there_is(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.set_pool("gpu", slots(2))
        queue.put([self.entry(clock, "big", 0, {"gpu": 3}), self.entry(clock, "odd", 1, {"unknown": 1})])
        assert self.taken(queue) == []
        queue.set_pool("gpu", slots(3))
        assert self.taken(queue) == ["big"]
        queue.set_pool("unknown", slots(1))
        assert self.taken(queue) == ["odd"]

    def test_a_shrunk_pool_grants_nothing_until_it_has_room_again(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(2))
        queue.put([self.entry(clock, f"r{i}", i, {"gpu": 1}) for i in range(4)])
        assert self.taken(queue) == ["r0", "r1"]
        queue.set_pool("gpu", slots(1))
        self.finish(queue, "r0")
        assert self.taken(queue) == []
        self.finish(queue, "r1")
        assert self.taken(queue) == ["r2"]

    def test_a_smaller_run_put_before_a_parked_one_starts(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(4))
        queue.put([self.entry(clock, "runs", -9, {"gpu": 2}), self.entry(clock, "big", 5, {"gpu": 4})])
        assert self.taken(queue) == ["runs"]
        queue.put([self.entry(clock, "small", 1, {"gpu": 1})])
        assert self.taken(queue) == ["small"]

    def test_cancelling_an_overdue_head_lets_others_start(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(4))
        queue.put([self.entry(clock, "r", -9, {"gpu": 2}), self.entry(clock, "b", -8, {"gpu": 4})])
        queue.put([self.entry(clock, "s", 1, {"gpu": 1})])
        assert self.taken(queue) == ["r"]
        queue.cancel("b")
        assert self.taken(queue) == ["s"]

    def test_a_release_reaches_a_class_behind_one_that_still_does_not_fit(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.set_pool("gpu", slots(2))
        queue.set_pool("net", slots(1))
        queue.put([self.entry(clock, "hold", 0, {"gpu": 2}), self.entry(clock, "net", 0, {"net": 1})])
        assert self.taken(queue) == ["hold", "net"]
        queue.put([self.entry(clock, "both", 1, {"gpu": 1, "net": 1}), self.entry(clock, "one", 2, {"gpu": 1})])
        assert self.taken(queue) == []
        self.finish(queue, "hold")
        assert self.taken(queue) == ["one"]
