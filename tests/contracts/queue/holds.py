"""Holds: overdue runs that lack units of a `DispatchQueue`'s pool, and what may still start before them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from duetime.scheduler.queue import DispatchQueue, Entry, Finish, Kind, Limits, Shares, ThreadUse, Why
from duetime.scheduler.rules.headroom import DEFAULT_HEADROOM

from tests.contracts.queue.case import Clock, QueueCase, slots

LEASE_MS = 1e12


class HoldsContract(QueueCase):
    """An overdue run is passed by a bounded number of others, and it keeps nobody from units that it cannot use."""

    def overdue(self, clock: Clock, n: int, tier: int, *, tenant: str = "", units: int = 1) -> list[Entry]:
        """Return overdue runs of a tier that need the pool `gpu`."""
        return [
            Entry(f"{tier}{tenant}.{i:03}", clock.ms - 1e6 + i, tier, {"gpu": units}, clock.ms - 2e6, tenant=tenant)
            for i in range(n)
        ]

    def leased(self, queue: DispatchQueue) -> list[str]:
        return self.taken(queue, lease=LEASE_MS)

    def starts_before(self, queue: DispatchQueue, clock: Clock, run_id: str, running: list[str]) -> list[str]:
        """End the running runs in turn, one a second, until a run starts; return the runs that started before it."""
        before: list[str] = []
        for _ in range(1000):
            clock.ms += 1000
            self.finish(queue, running.pop(0))
            got = self.leased(queue)
            if run_id in got:
                return before
            before += got
            running += got
        raise AssertionError(f"{run_id} starved behind {before[-5:]}")

    @pytest.mark.parametrize("limits", [slots(1), slots(4), Limits(Kind.RATE, 10, 0.001), slots(10, headroom=0.2)])
    def test_a_tier_has_its_share_of_a_pool_that_is_always_full(
        self, queue: DispatchQueue, clock: Clock, limits: Limits
    ) -> None:
        queue.set_pool("gpu", limits)
        queue.put(self.overdue(clock, 300, 5))
        running = self.leased(queue)
        queue.put([self.entry(clock, "critical", 1000, {"gpu": 1}, tier=1)])
        assert len(self.starts_before(queue, clock, "critical", running)) <= Shares().bound(1)

    @pytest.mark.parametrize("tier", [2, 3, 4, 5])
    def test_a_large_run_is_passed_by_as_many_starts_as_the_bound_of_its_tier_says(
        self, queue: DispatchQueue, clock: Clock, tier: int
    ) -> None:
        """The adversary: one more small critical run comes with each end, and all are overdue."""
        queue.set_pool("gpu", slots(4))
        queue.put(self.overdue(clock, 300, 1))
        running = self.leased(queue)
        queue.put([self.entry(clock, "large", -1, {"gpu": 4}, tier=tier)])
        before = self.starts_before(queue, clock, "large", running)
        assert math.floor(1 / Shares().guaranteed[tier - 1]) <= len(before) <= Shares().bound(tier)

    def test_a_large_urgent_run_is_not_starved_by_small_ones_of_a_less_urgent_tier_with_older_keys(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.set_pool("gpu", slots(4))
        queue.put(self.overdue(clock, 300, 5))
        running = self.leased(queue)
        queue.put([self.entry(clock, "large", -1, {"gpu": 4}, tier=2)])
        assert len(self.starts_before(queue, clock, "large", running)) <= Shares().bound(2)

    def test_small_runs_of_a_less_urgent_tier_have_their_share_of_a_pool_that_large_runs_hold(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.set_pool("gpu", slots(4))
        queue.put(self.overdue(clock, 300, 2, units=3))
        running = self.leased(queue)
        queue.put([self.entry(clock, "small", -1, {"gpu": 2}, tier=5)])
        assert len(self.starts_before(queue, clock, "small", running)) <= Shares().bound(5)

    def test_a_tenant_whose_turn_it_is_gets_more_units_than_the_backlog_of_another_needs(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.set_pool("gpu", slots(4))
        queue.put(self.overdue(clock, 300, 3, tenant="a"))
        running = self.leased(queue)
        queue.put([Entry("b", clock.ms - 1, 3, {"gpu": 2}, clock.ms, tenant="b")])
        assert len(self.starts_before(queue, clock, "b", running)) <= 2

    # Units that the run with the hold cannot use

    @pytest.mark.parametrize(
        "smaller",
        [slots(2), slots(4, headroom=0.5), slots(4, steps=((1_800_000_001_500.0, 2.0), (1_800_009_000_000.0, 4.0)))],
        ids=["capacity", "headroom", "hours"],
    )
    def test_a_hold_ends_when_the_pool_is_too_small_for_its_run(
        self, queue: DispatchQueue, clock: Clock, smaller: Limits
    ) -> None:
        queue.set_pool("gpu", slots(4))
        queue.put([self.entry(clock, "running", 0, {"gpu": 1})])
        assert self.leased(queue) == ["running"]
        queue.put([self.entry(clock, "large", -1, {"gpu": 4}), self.entry(clock, "small", 1e5, {"gpu": 1})])
        assert self.leased(queue) == []
        queue.set_pool("gpu", smaller)
        clock.ms += 2000
        assert self.leased(queue) == ["small"]

    @pytest.mark.parametrize("n", [10, 40])
    def test_runs_too_large_for_the_pool_hide_no_hold_behind_them(
        self, queue: DispatchQueue, clock: Clock, n: int
    ) -> None:
        queue.set_pool("gpu", slots(4))
        queue.put([self.entry(clock, f"s{i}", -9, {"gpu": 1}) for i in range(2)])
        running = self.leased(queue)
        queue.put([run for i in range(n) for run in self.overdue(clock, 1, 3, tenant=f"t{i}", units=4)])
        assert self.leased(queue) == []
        queue.set_pool("gpu", slots(2))
        assert self.leased(queue) == []
        queue.put([self.entry(clock, "overdue", -1, {"gpu": 2})])
        queue.put([self.entry(clock, f"later{i}", 1e7, {"gpu": 1}) for i in range(300)])
        assert self.starts_before(queue, clock, "overdue", running) == []

    @pytest.mark.parametrize("n", [10, 40])
    def test_runs_of_an_action_without_workers_hide_no_hold_behind_them(
        self, queue: DispatchQueue, clock: Clock, n: int
    ) -> None:
        small = frozenset({"small"})
        queue.set_pool("gpu", slots(4))
        queue.put([replace(self.entry(clock, f"s{i}", -9, {"gpu": 1}), action="small") for i in range(2)])
        running = list(queue.take("w", 9, LEASE_MS, actions=small).grants)
        videos = [run for i in range(n) for run in self.overdue(clock, 1, 3, tenant=f"t{i}", units=4)]
        queue.put([replace(run, action="video") for run in videos])
        assert not queue.take("video", 9, LEASE_MS, actions=frozenset({"video"})).grants
        clock.ms += 60_000
        queue.put([replace(self.entry(clock, "overdue", -1, {"gpu": 4}), action="small")])
        queue.put([replace(self.entry(clock, f"later{i}", 1e7, {"gpu": 1}), action="small") for i in range(9)])
        started = list[str]()
        for grant in running:
            clock.ms += 1000
            started += queue.take("w", 9, LEASE_MS, actions=small).run_ids
            queue.finish("w", [Finish(grant.run_id, grant.token)])
        assert [*started, *queue.take("w", 9, LEASE_MS, actions=small).run_ids] == ["overdue"]

    def test_headroom_of_a_pool_is_for_urgent_runs_while_a_less_urgent_one_is_overdue(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.set_pool("gpu", slots(10, headroom=0.2))
        queue.put([self.entry(clock, f"n{i}", 1e6, {"gpu": 1}) for i in range(8)])
        assert len(self.leased(queue)) == 8
        queue.put([self.entry(clock, "overdue", -1, {"gpu": 1}, tier=5)])
        assert self.leased(queue) == []
        queue.put([self.entry(clock, "critical", 1000, {"gpu": 1}, tier=1)])
        assert self.leased(queue) == ["critical"]

    def test_runs_start_on_threads_kept_for_them_though_an_overdue_one_may_not(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        headroom = DEFAULT_HEADROOM.of(16)
        queue.set_pool("gpu", slots(1))
        queue.put([self.entry(clock, "running", -2, {"gpu": 1}, tier=5)])
        assert self.leased(queue) == ["running"]
        queue.put([self.entry(clock, "overdue", -1, {"gpu": 1}, tier=5)])
        assert self.leased(queue) == []
        self.finish(queue, "running")
        queue.put([self.entry(clock, "critical", 1000, {"gpu": 1}, tier=1)])
        assert queue.take("w", 2, LEASE_MS, threads=ThreadUse(16, 14, headroom)).run_ids == ("critical",)

    # Runs that need several pools

    @pytest.mark.parametrize("tier", [1, 3, 5])
    def test_a_run_that_waits_for_the_quota_of_its_tenant_keeps_no_pool_from_other_tenants(
        self, queue: DispatchQueue, clock: Clock, tier: int
    ) -> None:
        queue.set_pool("gpu", slots(1))
        queue.set_pool("tenant:a", slots(1))
        queue.put([self.entry(clock, "gpu", -9, {"gpu": 1}), self.entry(clock, "quota", -9, {"tenant:a": 1})])
        assert len(self.leased(queue)) == 2
        queue.put([Entry("overdue", clock.ms - 1, 3, {"gpu": 1, "tenant:a": 1}, clock.ms, tenant="a")])
        assert self.leased(queue) == []
        self.finish(queue, "gpu")
        assert self.leased(queue) == []
        clock.ms += 1000
        queue.put([Entry("other", clock.ms + 1e5, tier, {"gpu": 1}, clock.ms, tenant="b")])
        assert self.leased(queue) == ["other"]

    def test_a_run_that_needs_two_pools_that_are_always_full_starts_when_it_is_overdue_for_long(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        """Runs of a minute take turns in each pool, and end half a minute apart: both are never free at once."""
        for name in "ab":
            queue.set_pool(name, slots(1))
        queue.put([self.entry(clock, "a0", -9, {"a": 1}), self.entry(clock, "b0", -9, {"b": 1})])
        running = dict(zip("ab", self.leased(queue), strict=True))
        queue.put([self.entry(clock, "both", -1, {"a": 1, "b": 1})])
        for step in range(1, 60):
            name = "ab"[step % 2]
            queue.put([self.entry(clock, f"{name}{step}", 1e5, {name: 1})])
            if ended := running.pop(name, None):
                self.finish(queue, ended)
            for ms in (0, 29_000, 1000):
                clock.ms += ms
                for run_id in self.leased(queue):
                    if run_id == "both":
                        assert step <= 2 / Shares().guaranteed[2]
                        return
                    running[run_id[0]] = run_id
        raise AssertionError("it starved")

    # New keys

    def test_a_run_that_is_given_the_key_that_it_has_keeps_its_hold(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(4))
        queue.put([self.entry(clock, f"s{i}", -9, {"gpu": 1}) for i in range(2)])
        assert self.leased(queue) == ["s0", "s1"]
        queue.put([self.entry(clock, "large", -1, {"gpu": 4}), self.entry(clock, "small", 1e5, {"gpu": 1})])
        assert self.leased(queue) == []
        assert queue.rescore("large", clock.ms - 1)
        assert queue.rescore("large", clock.ms - 2)
        assert self.leased(queue) == []
        short = self.shortage(queue, "small")
        assert (short.why, short.held_for) == (Why.HELD, "large")
        self.finish(queue, "s0", "s1")
        assert self.leased(queue) == ["large"]

    @pytest.mark.parametrize("n", [0, 1])
    def test_new_keys_of_an_overdue_run_keep_no_pool_from_others_for_longer(
        self, queue: DispatchQueue, clock: Clock, n: int
    ) -> None:
        began = clock.ms
        for name in ("gpu", "quota"):
            queue.set_pool(name, slots(1))
        queue.put([self.entry(clock, "running", -9, {"quota": 1})])
        assert self.leased(queue) == ["running"]
        queue.put(
            [self.entry(clock, "overdue", -3.6e6, {"gpu": 1, "quota": 1}), self.entry(clock, "other", 1e8, {"gpu": 1})]
        )
        share = Shares().guaranteed[2]
        while not self.leased(queue):
            clock.ms += 30_000
            assert clock.ms - began <= share * 3.6e6 + 30_000, "the hold was renewed"
            for i in range(n):
                assert queue.rescore("overdue", began - 3.6e6 - clock.ms / 1e9 - i)
        assert clock.ms - began >= share * 3.6e6

    def test_a_run_whose_new_key_is_not_past_keeps_no_pool_from_others(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        for name in ("gpu", "quota"):
            queue.set_pool(name, slots(1))
        queue.put([self.entry(clock, "running", -9, {"quota": 1})])
        assert self.leased(queue) == ["running"]
        both = self.entry(clock, "both", -3.6e6, {"gpu": 1, "quota": 1})
        queue.put([both, self.entry(clock, "other", 1e8, {"gpu": 1})])
        assert self.leased(queue) == []
        assert queue.rescore("both", clock.ms + 1e7)
        assert self.leased(queue) == ["other"]

    def test_what_a_run_parked_elsewhere_kept_is_free_at_the_end_of_its_hold(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        """An earlier timer of the pool fires while nothing is parked there."""
        began = clock.ms
        queue.set_pool("gpu", slots(1, steps=((began + 1000, 1.0),)))
        queue.set_pool("quota", slots(1))
        queue.put([self.entry(clock, "gpu", -9, {"gpu": 1}), self.entry(clock, "quota", -9, {"quota": 1})])
        assert sorted(self.leased(queue)) == ["gpu", "quota"]
        queue.put([self.entry(clock, "gone", 1e8, {"gpu": 1})])
        assert self.leased(queue) == []
        queue.cancel("gone")
        self.finish(queue, "gpu")
        queue.put([self.entry(clock, "both", -3.6e6, {"gpu": 1, "quota": 1})])
        assert self.leased(queue) == []
        clock.ms += 1000
        assert self.leased(queue) == []
        queue.put([self.entry(clock, "other", 1e8, {"gpu": 1})])
        waited, started = self.patiently(queue, clock)
        assert (waited, started) == (round(Shares().guaranteed[2] * 3.6e6) - 1000, ["other"])
