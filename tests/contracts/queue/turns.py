"""Starting a run of a `DispatchQueue` out of turn, and asking whether it could start."""

from __future__ import annotations

from duetime.scheduler.queue import MAX_RUNS_COUNTED_AHEAD, DispatchQueue, Entry, Shortage, Why

from tests.contracts.queue.case import LEASE_MS, Clock, QueueCase, slots


class TurnsContract(QueueCase):
    """`reserve` and `can_admit`."""

    def test_a_run_out_of_turn_reserves_all_that_it_needs_or_nothing(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("a", slots(1))
        queue.set_pool("b", slots(1))
        both = self.entry(clock, "both", 0, {"a": 1, "b": 1})
        granted = queue.reserve("w", self.entry(clock, "x", 0, {"b": 1}), LEASE_MS)
        assert granted is not None
        assert (granted.run_id, granted.needs) == ("x", {"b": 1})
        self.grants["x"] = granted
        assert queue.reserve("w", both, LEASE_MS) is None
        assert self.pool(queue, "a").used == 0
        assert self.finish(queue, "x")
        assert queue.reserve("w", both, LEASE_MS) is not None
        assert queue.explain("both") is not None

    def test_it_leaves_its_place_and_its_class_goes_on(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(4))
        queue.put([self.entry(clock, "r", 0, {"gpu": 3})])
        assert self.taken(queue) == ["r"]
        queue.put([self.entry(clock, f"p{i}", 1e6 + i, {"gpu": 2}) for i in range(2)])
        queue.put([self.entry(clock, "later", after=9e6)])
        assert self.taken(queue) == []
        assert queue.reserve("w", self.entry(clock, "p0", 1e6, {"gpu": 1}), LEASE_MS) is not None
        assert queue.reserve("w", self.entry(clock, "later"), LEASE_MS) is not None
        stats = queue.stats()
        assert (stats.delayed, stats.leased, sum(stats.waiting) + stats.parked) == (0, 3, 1)
        self.finish(queue, "r")
        assert self.taken(queue) == ["p1"]

    def test_a_run_that_is_leased_is_not_leased_again(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.entry(clock, "a")])
        assert self.taken(queue) == ["a"]
        assert queue.reserve("w", self.entry(clock, "a"), LEASE_MS) is None

    def test_a_hold_of_an_overdue_run_binds_out_of_turn_too(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(2))
        queue.put([self.entry(clock, "r", -9, {"gpu": 1})])
        assert self.taken(queue) == ["r"]
        queue.put([self.entry(clock, "large", -1, {"gpu": 2})])
        assert self.taken(queue) == []
        assert queue.reserve("w", self.entry(clock, "small", 0, {"gpu": 1}), LEASE_MS) is None
        assert queue.reserve("w", self.entry(clock, "older", -2, {"gpu": 1}), LEASE_MS) is not None

    def test_asking_changes_nothing(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(2))
        queue.put([self.entry(clock, "r", 0, {"gpu": 1})])
        assert self.taken(queue) == ["r"]
        before = queue.stats()
        assert queue.can_admit(self.entry(clock, "one", 0, {"gpu": 1, "key:new": 1})) is None
        wanted = self.entry(clock, "two", -5, {"gpu": 2})
        assert queue.can_admit(wanted) == Shortage("gpu", Why.SHORT, 2, 1, 2, holders=("r",))
        assert queue.can_admit(Entry("x", 0, needs={"new": 1})) == Shortage("new", Why.UNKNOWN, 1, 0, 0)
        assert queue.stats() == before
        queue.put([self.entry(clock, "one", 0, {"gpu": 1})])
        assert self.taken(queue) == ["one"]

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
