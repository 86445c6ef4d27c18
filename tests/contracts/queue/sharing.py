"""Turns in a `DispatchQueue` when several tiers have work."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from duetime.scheduler.queue import DispatchQueue, Shares

from tests.contracts.queue.case import Clock, QueueCase, slots

TIERS = range(1, 6)


class SharesContract(QueueCase):
    """Guarantees and ceilings among tiers that are late; else the key alone counts. The queue has the usual shares."""

    def crowd(self, queue: DispatchQueue, clock: Clock, urgent: int, each: int = 300, late: float = 1e7) -> None:
        """Put many runs of each tier, those of one with the smallest keys; all are overdue by about `late` ms."""
        for tier in TIERS:
            key = 1e6 * (tier != urgent) - late
            queue.put([self.entry(clock, f"{tier}.{n:03}", key + n, tier=tier) for n in range(each)])

    def tiers(self, queue: DispatchQueue, n: int) -> list[int]:
        return [int(self.taken(queue, 1)[0].partition(".")[0]) for _ in range(n)]

    @pytest.mark.parametrize("urgent", TIERS)
    def test_every_late_tier_gets_its_guaranteed_share_and_the_urgent_one_no_more_than_its_ceiling(
        self, queue: DispatchQueue, clock: Clock, urgent: int
    ) -> None:
        self.crowd(queue, clock, urgent)
        got = Counter(self.tiers(queue, 200))
        shares = Shares()
        assert all(got[tier] >= 200 * shares.guaranteed[tier - 1] - 2 for tier in TIERS)
        assert got[urgent] <= 200 * shares.ceilings[urgent - 1] + 3

    def test_a_late_tier_is_served_within_its_bound_though_more_urgent_runs_keep_arriving(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        self.crowd(queue, clock, 1, each=100)
        order = self.tiers(queue, 200)
        for tier in TIERS:
            turns = [-1, *(turn for turn, served in enumerate(order) if served == tier)]
            gaps = [after - before for before, after in pairwise(turns)]
            assert max(gaps) <= Shares().bound(tier)

    @pytest.mark.parametrize("urgent", TIERS)
    def test_while_no_tier_is_late_the_most_urgent_gets_everything(
        self, queue: DispatchQueue, clock: Clock, urgent: int
    ) -> None:
        self.crowd(queue, clock, urgent, each=50, late=-1e6)
        assert self.tiers(queue, 50) == [urgent] * 50

    def test_only_late_tiers_share_and_one_becomes_late_by_waiting(self, queue: DispatchQueue, clock: Clock) -> None:
        for tier, key in ((2, -1e6), (3, -5e5), (5, 5000)):
            queue.put([self.entry(clock, f"{tier}.{n:03}", key + n / 1000, tier=tier) for n in range(200)])
        early = Counter(self.tiers(queue, 100))
        assert set(early) == {2, 3}
        assert early[3] >= 100 * (1 - Shares().ceilings[1]) - 3
        clock.ms += 5001
        assert Counter(self.tiers(queue, 100))[5] >= 100 * Shares().guaranteed[4] - 2

    def test_shares_may_be_set_and_an_older_version_of_them_changes_nothing(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        even = Shares((0.2, 0.2, 0.2, 0.2, 0.2), (0.9, 0.8, 0.8, 0.8, 0.8))
        queue.set_shares(even, 2)
        queue.set_shares(Shares(), 1)
        self.crowd(queue, clock, 1)
        got = Counter(self.tiers(queue, 200))
        assert all(abs(got[tier] - 40) <= 5 for tier in TIERS), got
        assert queue.stats().policy == 2

    def test_shares_are_those_of_the_newest_version_and_a_rebuild_forgets_them(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        assert queue.stats().policy == 0
        queue.set_shares(Shares((0.01, 0.01, 0.01, 0.01, 0.96), (0.02, 0.02, 0.02, 0.02, 1.0)), 1)
        queue.set_shares(Shares(), 1)
        self.crowd(queue, clock, 5)
        assert Counter(self.tiers(queue, 100))[5] <= 100 * Shares().ceilings[4] + 3
        queue.set_shares(Shares((0.2,) * 5, (0.9,) * 5), 7)
        assert queue.begin_rebuild("me")
        assert queue.end_rebuild("me")
        assert queue.stats().policy == 0
        self.crowd(queue, clock, 1)
        got = Counter(self.tiers(queue, 200))
        assert got[1] >= 200 * Shares().guaranteed[0] - 2

    def test_a_tier_that_is_alone_gets_everything(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.entry(clock, f"5.{n:02}", n, tier=5) for n in range(40)])
        assert self.tiers(queue, 40) == [5] * 40

    def test_a_turn_that_no_tier_is_owed_goes_by_key_across_tiers(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.entry(clock, "1.a", 9, tier=1), self.entry(clock, "4.b", 1, tier=4)])
        assert self.tiers(queue, 2) == [4, 1]

    def test_a_tier_whose_runs_are_all_parked_earns_nothing(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(1))
        queue.put([self.entry(clock, f"1.{n:02}", n, {"gpu": 1}, tier=1) for n in range(5)])
        queue.put([self.entry(clock, f"5.{n:02}", 1e6 + n, tier=5) for n in range(50)])
        clock.ms += 2e6
        first = self.tiers(queue, 40)
        assert first == [1] + [5] * 39
        queue.set_pool("gpu", slots(5))
        assert self.tiers(queue, 4)[:3].count(1) >= 2
