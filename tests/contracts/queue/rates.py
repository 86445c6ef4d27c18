"""Pools that count over time: rates, budgets, calendars and headroom."""

from __future__ import annotations

import pytest
from duetime.scheduler.queue import DispatchQueue, Kind, Limits, Report, Why

from tests.contracts.queue.case import Clock, QueueCase, slots

SECOND_MS = 1000.0


def per_second(units: float, burst: float, headroom: float = 0.0) -> Limits:
    return Limits(Kind.RATE, burst, refill=units / SECOND_MS, headroom=headroom)


class RatesContract(QueueCase):
    """Runs that time makes ready start when the queue said they would."""

    def many(self, queue: DispatchQueue, clock: Clock, pool: str, units: int, n: int = 9, *, tier: int = 3) -> None:
        queue.put([self.entry(clock, f"{pool}{tier}.{i}", 1e7 + i, {pool: units}, tier=tier) for i in range(n)])

    def test_a_rate_admits_its_burst_and_then_what_refills(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("api", per_second(2, burst=3))
        self.many(queue, clock, "api", 1)
        assert len(self.taken(queue)) == 3
        assert self.patiently(queue, clock) == (500, ["api3.3"])
        clock.ms += 1000
        assert len(self.taken(queue)) == 2

    def test_a_finished_run_gives_nothing_of_a_rate_back_but_what_it_did_not_use(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.set_pool("tokens", per_second(1, burst=100))
        self.many(queue, clock, "tokens", 50, n=4)
        first, second = self.taken(queue)
        assert self.finish(queue, first)
        assert self.taken(queue) == []
        assert self.finish(queue, second, used={"tokens": 10.0})
        assert self.pool(queue, "tokens").free == 40
        assert self.patiently(queue, clock) == (10 * SECOND_MS, ["tokens3.2"])

    def test_stats_tell_of_a_rate_as_it_is_now_though_nobody_has_touched_it_since(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.set_pool("api", per_second(1, burst=5))
        self.many(queue, clock, "api", 1, n=4)
        first, *others = self.taken(queue)
        self.finish(queue, *others)
        self.finish(queue, first, reports=(Report("api", throttled=True),))
        assert self.pool(queue, "api").used == 4
        clock.ms += SECOND_MS
        assert self.pool(queue, "api").used < 4
        clock.ms += 60 * SECOND_MS
        use = self.pool(queue, "api")
        assert (use.used, use.free, use.factor) == (0, 5, 1)

    def test_over_use_is_debt_that_is_paid_before_anything_else_starts(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.set_pool("tokens", per_second(10, burst=100))
        self.many(queue, clock, "tokens", 100, n=2)
        assert len(self.taken(queue)) == 1
        assert self.finish(queue, "tokens3.0", used={"tokens": 150.0})
        assert self.pool(queue, "tokens").free == -50
        assert self.patiently(queue, clock) == (15 * SECOND_MS, ["tokens3.1"])

    def test_a_bucket_that_is_set_up_empty_starts_empty(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("api", per_second(1, burst=5), empty=True)
        self.many(queue, clock, "api", 1)
        assert self.patiently(queue, clock) == (SECOND_MS, ["api3.0"])

    def test_changing_a_rate_keeps_what_was_taken(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("api", per_second(1, burst=10))
        self.many(queue, clock, "api", 1, n=20)
        assert len(self.taken(queue)) == 10
        queue.set_pool("api", per_second(1, burst=10), empty=False)
        assert self.taken(queue) == []
        queue.set_pool("api", per_second(100, burst=2))
        clock.ms += SECOND_MS
        assert len(self.taken(queue)) == 2

    def test_a_budget_is_spent_by_what_was_used_until_its_window_ends(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("money", Limits(Kind.BUDGET, 100, resets=(clock.ms + 10 * SECOND_MS, clock.ms + 20 * SECOND_MS)))
        self.many(queue, clock, "money", 40)
        assert len(self.taken(queue)) == 2
        assert self.finish(queue, "money3.0", used={"money": 10.0})
        assert len(self.taken(queue)) == 1
        assert self.finish(queue, "money3.1", "money3.2")
        assert self.pool(queue, "money").spent == 90
        assert self.patiently(queue, clock) == (10 * SECOND_MS, ["money3.3", "money3.4"])

    def test_a_budget_that_becomes_slots_leaves_nothing_spent(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("money", Limits(Kind.BUDGET, 100, resets=(clock.ms + 10 * SECOND_MS,)))
        self.many(queue, clock, "money", 40)
        assert self.taken(queue) == ["money3.0", "money3.1"]
        self.finish(queue, "money3.0")
        queue.set_pool("money", slots(80))
        pool = self.pool(queue, "money")
        assert (pool.used, pool.spent, pool.free) == (40, 0, 40)
        assert self.taken(queue) == ["money3.2"]
        self.finish(queue, "money3.1", "money3.2")
        queue.set_pool("money", Limits(Kind.BUDGET, 100, resets=(clock.ms + 10 * SECOND_MS,)), spent=70)
        assert (self.pool(queue, "money").spent, self.taken(queue)) == (70, [])

    def test_a_template_gives_each_tenant_a_budget_of_its_own(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool(
            "tenant:*", Limits(Kind.BUDGET, 2, resets=(clock.ms + 10 * SECOND_MS, clock.ms + 20 * SECOND_MS))
        )
        for tenant in ("acme", "globex"):
            runs = [self.entry(clock, f"{tenant}{number}", number, {f"tenant:{tenant}": 1}) for number in range(3)]
            queue.put(runs)
        taken = self.taken(queue)
        assert sorted(taken) == ["acme0", "acme1", "globex0", "globex1"]
        self.finish(queue, *taken)
        assert self.taken(queue) == []
        clock.ms += 10 * SECOND_MS
        assert sorted(self.taken(queue)) == ["acme2", "globex2"]

    def test_an_overdraft_of_a_budget_is_missing_in_the_next_window(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("money", Limits(Kind.BUDGET, 100, resets=(clock.ms + SECOND_MS, clock.ms + 2 * SECOND_MS)))
        self.many(queue, clock, "money", 100, n=2)
        assert len(self.taken(queue)) == 1
        self.finish(queue, "money3.0", used={"money": 130.0})
        clock.ms += SECOND_MS
        assert self.taken(queue) == []
        assert self.pool(queue, "money").spent == 30
        clock.ms += SECOND_MS
        assert self.taken(queue) == ["money3.1"]

    def test_a_new_pool_knows_what_its_window_has_seen(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("money", Limits(Kind.BUDGET, 100, resets=(clock.ms + SECOND_MS,)), spent=70)
        self.many(queue, clock, "money", 40)
        assert self.taken(queue) == []
        clock.ms += SECOND_MS
        assert len(self.taken(queue)) == 2

    def test_a_capacity_that_follows_the_calendar_opens_and_shuts_at_its_steps(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        steps = ((clock.ms + 10 * SECOND_MS, 2.0), (clock.ms + 20 * SECOND_MS, 0.0))
        queue.set_pool("night", slots(0, steps=steps))
        self.many(queue, clock, "night", 1)
        waited, first = self.patiently(queue, clock)
        assert (waited, len(first)) == (10 * SECOND_MS, 2)
        clock.ms += 10 * SECOND_MS
        self.finish(queue, *first)
        assert self.taken(queue) == []

    @pytest.mark.parametrize("tier", range(1, 6))
    @pytest.mark.parametrize("kind", [Kind.SLOTS, Kind.RATE, Kind.BUDGET])
    def test_headroom_is_kept_for_critical_and_high(
        self, queue: DispatchQueue, clock: Clock, tier: int, kind: Kind
    ) -> None:
        queue.set_pool("api", Limits(kind, 10, headroom=0.3))
        self.many(queue, clock, "api", 1, n=20, tier=tier)
        assert len(self.taken(queue)) == (10 if tier <= 2 else 7)

    def test_a_low_run_larger_than_the_headroom_leaves_does_not_hide_the_smaller_ones(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.set_pool("tokens", per_second(1, burst=1000, headroom=0.5))
        queue.put([self.entry(clock, "all", 0, {"tokens": 1000}, tier=1)])
        assert self.taken(queue) == ["all"]
        queue.put([self.entry(clock, f"big{i}", 1e7 + i, {"tokens": 900 + i}, tier=5) for i in range(50)])
        queue.put([self.entry(clock, "small", 2e7, {"tokens": 10}, tier=5)])
        assert self.taken(queue) == []
        self.finish(queue, "all", used={"tokens": 0.0})
        assert self.taken(queue) == ["small"]

    def test_a_run_larger_than_a_bucket_makes_nobody_look_at_it_again_and_again(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.set_pool("api", per_second(1000, burst=10))
        queue.put([self.entry(clock, "huge", 0, {"api": 11}), self.entry(clock, "low", 0, {"api": 6}, tier=5)])
        queue.set_pool("api", per_second(1000, burst=10, headroom=0.5))
        assert queue.take("w", 9, 1.0).hint is None
        lacking = self.shortage(queue, "huge")
        assert (lacking.why, lacking.helped_at) == (Why.TOO_SMALL, None)

    def test_a_pool_may_change_its_kind_while_runs_have_units_of_it(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("api", slots(4))
        self.many(queue, clock, "api", 2)
        first = self.taken(queue)
        queue.set_pool("api", per_second(0, burst=4))
        self.finish(queue, *first)
        queue.set_pool("api", slots(4))
        assert self.pool(queue, "api").used == 0
        assert len(self.taken(queue)) == 2
