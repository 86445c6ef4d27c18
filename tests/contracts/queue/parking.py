"""Runs that a `DispatchQueue` parks because they cannot start now, those made from templates, a hold when overdue."""

from __future__ import annotations

import pytest
from duetime.scheduler.queue import Cancelled, DispatchQueue, Entry, Kind, Limits, Report, Why
from duetime.scheduler.queue.constants import MAX_CLASSES_PER_TAKE, MAX_SIZES_PER_WAKE

from tests.contracts.queue.case import Clock, QueueCase, slots


class ParkingContract(QueueCase):
    """Parked runs cost nothing until their pool changes, and then nothing that fits stands still."""

    def why(self, queue: DispatchQueue, run_id: str) -> tuple[str, Why] | None:
        found = queue.explain(run_id)
        return (found.shortage.pool, found.shortage.why) if found and found.shortage else None

    # Parking

    def test_a_take_looks_at_so_many_classes_and_the_next_one_goes_on(self, queue: DispatchQueue, clock: Clock) -> None:
        n = 2 * MAX_CLASSES_PER_TAKE + 10
        queue.put([self.entry(clock, f"r{i:03}", 1e9 + i, {f"p{i:03}": 1}) for i in range(n)])
        queue.put([self.entry(clock, "free", 2e9)])
        hints = [queue.take("w", 9, 1e9) for _ in range(2)]
        assert [(take.run_ids, take.hint) for take in hints] == [((), 0)] * 2
        assert self.taken(queue) == ["free"]
        assert queue.stats().parked == n
        assert queue.take("w", 9, 1e9).hint is None

    def test_everything_that_fits_starts_however_many_sizes_a_release_has_to_wake(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        n = 3 * MAX_SIZES_PER_WAKE
        queue.set_pool("gpu", slots(10_000))
        queue.put([self.entry(clock, "all", 0, {"gpu": 10_000})])
        assert self.taken(queue) == ["all"]
        queue.put([self.entry(clock, f"r{i:03}", 1e9 + i, {"gpu": 1 + i}) for i in range(n)])
        assert self.taken(queue) == []
        self.finish(queue, "all")
        assert len(self.taken(queue, n)) == n

    def test_units_that_a_woken_class_cannot_use_go_to_the_next(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("a", slots(1))
        queue.set_pool("b", slots(1))
        queue.put([self.entry(clock, "a", 0, {"a": 1}), self.entry(clock, "b", 0, {"b": 1})])
        assert self.taken(queue) == ["a", "b"]
        queue.put([self.entry(clock, "ab", 1e9, {"a": 1, "b": 1}), self.entry(clock, "a2", 2e9, {"a": 1}, tier=4)])
        assert self.taken(queue) == []
        self.finish(queue, "a")
        assert self.taken(queue) == ["a2"]
        self.finish(queue, "a2", "b")
        assert self.taken(queue) == ["ab"]

    def test_an_unknown_pool_holds_until_it_is_there(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.entry(clock, "r", 0, {"new": 2})])
        assert self.taken(queue) == []
        assert self.why(queue, "r") == ("new", Why.UNKNOWN)
        queue.set_pool("new", slots(1))
        assert self.taken(queue) == []
        assert self.why(queue, "r") == ("new", Why.TOO_SMALL)
        queue.set_pool("new", slots(2))
        assert self.taken(queue) == ["r"]

    def test_a_pool_that_is_taken_away_holds_and_what_is_in_use_of_it_counts_when_it_is_back(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.set_pool("gpu", slots(2))
        queue.put([self.entry(clock, f"r{i}", 1e9 + i, {"gpu": 1}) for i in range(5)])
        assert self.taken(queue) == ["r0", "r1"]
        queue.set_pool("gpu", None)
        assert self.finish(queue, "r0")
        assert self.taken(queue) == []
        assert self.why(queue, "r2") == ("gpu", Why.UNKNOWN)
        assert "gpu" not in queue.stats().pools
        queue.set_pool("gpu", slots(2))
        assert self.taken(queue) == ["r2"]
        self.finish(queue, "r1", "r2")
        assert self.pool(queue, "gpu").used == 0
        assert len(self.taken(queue)) == 2

    def test_a_class_of_many_is_one_look(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(1))
        queue.put([self.entry(clock, f"g{i:05}", 1e9 + i, {"gpu": 1}) for i in range(2000)])
        queue.put([self.entry(clock, "free", 2e9)])
        assert self.taken(queue) == ["g00000", "free"]
        assert queue.stats().parked == 1999

    # Templates

    def test_one_run_of_a_key_at_a_time_and_the_pool_is_gone_when_none_is_left(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.put([self.entry(clock, f"r{i}", 1e9 + i, {f"key:{i % 2}": 1}) for i in range(4)])
        assert self.taken(queue) == ["r0", "r1"]
        assert set(queue.stats().pools) == {"key:0", "key:1"}
        self.finish(queue, "r0", "r1")
        assert self.taken(queue) == ["r2", "r3"]
        self.finish(queue, "r2", "r3")
        assert queue.stats().pools == {}

    def test_a_template_is_declared_changed_and_taken_away(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.entry(clock, f"r{i}", 1e9 + i, {"tenant:acme": 1}) for i in range(6)])
        assert self.taken(queue) == []
        queue.set_pool("tenant:*", slots(1))
        assert self.taken(queue) == ["r0"]
        queue.set_pool("tenant:*", slots(3))
        assert self.taken(queue) == ["r1", "r2"]
        queue.set_pool("tenant:acme", slots(4))
        assert self.taken(queue) == ["r3"]
        queue.set_pool("tenant:acme", None)
        self.finish(queue, "r0")
        assert self.taken(queue) == []
        self.finish(queue, "r1")
        assert self.taken(queue) == ["r4"]
        queue.set_pool("tenant:*", None)
        self.finish(queue, "r2", "r3")
        assert self.taken(queue) == []
        assert self.why(queue, "r5") == ("tenant:acme", Why.UNKNOWN)

    def test_the_template_of_keys_can_be_changed_but_not_lost(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("key:*", slots(2))
        queue.put([self.entry(clock, f"r{i}", 1e9 + i, {"key:a": 1}) for i in range(4)])
        assert self.taken(queue) == ["r0", "r1"]
        queue.set_pool("key:*", None)
        self.finish(queue, "r0")
        assert self.taken(queue) == []
        self.finish(queue, "r1")
        assert self.taken(queue) == ["r2"]

    # Holds

    def large(self, queue: DispatchQueue, clock: Clock, key: float) -> None:
        """Put a large run, and a small one after it, behind a pool that is half in use."""
        queue.set_pool("gpu", slots(4))
        queue.put([self.entry(clock, f"s{i}", -1e6 + i, {"gpu": 1}) for i in range(2)])
        assert self.taken(queue) == ["s0", "s1"]
        queue.put([self.entry(clock, "large", key, {"gpu": 4}), self.entry(clock, "small", 2e6, {"gpu": 1})])

    def test_an_overdue_run_has_a_hold_so_that_small_ones_do_not_starve_it(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        self.large(queue, clock, key=-1)
        assert self.taken(queue) == []
        short = self.shortage(queue, "small")
        assert (short.why, short.held_for) == (Why.HELD, "large")
        self.finish(queue, "s0", "s1")
        assert self.taken(queue) == ["large"]
        self.finish(queue, "large")
        assert self.taken(queue) == ["small"]

    def test_a_run_that_is_not_overdue_yet_lets_smaller_ones_pass(self, queue: DispatchQueue, clock: Clock) -> None:
        self.large(queue, clock, key=1)
        assert self.taken(queue) == ["small"]

    def test_a_run_that_was_parked_before_it_was_overdue_has_a_hold_when_it_is(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        """Small runs come all the time, so that what a large one needs is never free at once."""
        queue.set_pool("gpu", slots(4))
        queue.put([self.entry(clock, "s0000", 0, {"gpu": 1})])
        assert self.taken(queue) == ["s0000"]
        queue.put([self.entry(clock, "large", 3000, {"gpu": 4})])
        running, started = ["s0000"], list[str]()
        for n in range(1, 100):
            queue.put([self.entry(clock, f"s{n:04}", 4000, {"gpu": 1})])
            started = self.taken(queue)
            if "large" in started:
                break
            self.finish(queue, *running)
            running = started
            clock.ms += 100
        assert started == ["large"]
        assert 30 <= n <= 33

    def test_a_parked_run_has_a_hold_from_when_it_is_overdue_and_nobody_is_woken_for_that(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        self.large(queue, clock, key=3000)
        assert self.taken(queue) == ["small"]
        assert queue.take("w", 9, 1e9).hint is None
        clock.ms += 3001
        self.finish(queue, "s0")
        queue.put([self.entry(clock, "late", 1e6, {"gpu": 1})])
        assert self.taken(queue) == []
        assert self.why(queue, "late") == ("gpu", Why.HELD)

    @pytest.mark.parametrize("limits", [None, slots(0), slots(4, failures=1), Limits(Kind.BUDGET, 10)])
    def test_a_hold_on_one_pool_is_given_up_while_no_release_can_bring_the_other(
        self, queue: DispatchQueue, clock: Clock, limits: Limits | None
    ) -> None:
        """The other is not there, shut for now, broken, or spent, with a run of it still under way."""
        queue.set_pool("api", slots(2))
        if limits is not None:
            queue.set_pool("night", limits)
            queue.put([self.entry(clock, "broken", -1e6, {"night": 1}), self.entry(clock, "spent", -1e6, {"night": 9})])
        queue.put([self.entry(clock, "busy", -1e6, {"api": 2})])
        started = self.taken(queue)
        if "broken" in started:
            self.finish(queue, "broken", reports=(Report("night", ok=False),), used={"night": 9.0})
        queue.put([self.entry(clock, "overdue", -1, {"api": 1, "night": 2})])
        queue.put([self.entry(clock, f"next{n}", 1e6 + n, {"api": 1}) for n in range(3)])
        assert self.taken(queue) == []
        self.finish(queue, "busy")
        assert self.taken(queue) == ["next0", "next1"]

    def test_a_hold_is_kept_while_a_release_can_bring_the_other(self, queue: DispatchQueue, clock: Clock) -> None:
        for name in "ab":
            queue.set_pool(name, slots(1))
            queue.put([self.entry(clock, name, -1e6, {name: 1})])
        assert self.taken(queue) == ["a", "b"]
        queue.put([self.entry(clock, "both", -1, {"a": 1, "b": 1}), self.entry(clock, "next", 1e6, {"a": 1})])
        assert self.taken(queue) == []
        self.finish(queue, "a")
        assert self.taken(queue) == []
        self.finish(queue, "b")
        assert self.taken(queue) == ["both"]

    def test_a_run_ahead_of_the_overdue_one_still_goes_first(self, queue: DispatchQueue, clock: Clock) -> None:
        self.large(queue, clock, key=-1)
        assert self.taken(queue) == []
        queue.put([self.entry(clock, "older", -2, {"gpu": 1})])
        assert self.taken(queue) == ["older"]

    @pytest.mark.parametrize("how", ["cancelled", "moved"])
    def test_a_hold_ends_with_the_wish(self, queue: DispatchQueue, clock: Clock, how: str) -> None:
        self.large(queue, clock, key=-1)
        assert self.taken(queue) == []
        if how == "cancelled":
            assert queue.cancel("large") is Cancelled.REMOVED
        else:
            assert queue.rescore("large", clock.ms + 5e6)
        assert self.taken(queue) == ["small"]

    @pytest.mark.parametrize(("units", "tier"), [(5, 1), (3, 5)])
    def test_nobody_is_held_for_what_can_never_be(
        self, queue: DispatchQueue, clock: Clock, units: int, tier: int
    ) -> None:
        queue.set_pool("gpu", slots(4, headroom=0.5))
        queue.put([Entry("never", clock.ms - 1e6, tier, {"gpu": units}), self.entry(clock, "small", 0, {"gpu": 1})])
        assert self.taken(queue) == ["small"]
        assert self.why(queue, "never") == ("gpu", Why.TOO_SMALL)

    def test_two_overdue_runs_that_hold_what_the_other_needs_do_not_block_each_other(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        for name in "ab":
            queue.set_pool(name, slots(2))
            queue.put([self.entry(clock, f"{name}{i}", -1e6, {name: 1}) for i in range(2)])
        assert len(self.taken(queue)) == 4
        queue.put([self.entry(clock, "x", -10, {"a": 2, "b": 1}), self.entry(clock, "y", -20, {"a": 1, "b": 2})])
        queue.put([self.entry(clock, f"z{i}", 1e6 + i, {"a": 1, "b": 1}, tier=1 + i) for i in range(5)])
        assert self.taken(queue) == []
        for run_id in ("a0", "b0", "a1", "b1"):
            self.finish(queue, run_id)
            assert queue.take("idle", 0, 1e9).hint in (None, 0)
        assert self.taken(queue) == ["y"]
        self.finish(queue, "y")
        assert self.taken(queue) == ["x"]
        self.finish(queue, "x")
        assert len(self.taken(queue)) == 2

    def test_a_held_run_is_not_looked_at_again_and_again(self, queue: DispatchQueue, clock: Clock) -> None:
        for name in "ab":
            queue.set_pool(name, slots(2))
            queue.put([self.entry(clock, f"{name}0", -1e6, {name: 1})])
        assert self.taken(queue) == ["a0", "b0"]
        queue.put([self.entry(clock, "all of a", -10, {"a": 2}), self.entry(clock, "all of b", -20, {"b": 2})])
        assert self.taken(queue) == []
        queue.put([Entry("behind b", clock.ms - 15, 3, {"a": 1, "b": 1}, tenant="x")])
        queue.put([self.entry(clock, "behind both", 1e6, {"a": 1, "b": 1})])
        take = queue.take("w", 9, 1e9)
        assert (take.grants, take.hint) == ((), None)
