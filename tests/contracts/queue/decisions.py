"""The record of what a take of a `DispatchQueue` saw, from which its decisions can be shown and replayed."""

from __future__ import annotations

from dataclasses import replace

from duetime.scheduler.queue import DispatchQueue, Entry, ThreadUse, Why
from duetime.scheduler.queue.constants import MAX_LOOKS_RECORDED
from duetime.scheduler.rules.policies.decision import Contender, Look, PoolSeen, replay_decision
from duetime.scheduler.rules.shares import Shares

from tests.contracts.queue.case import LEASE_MS, Clock, QueueCase, slots


class DecisionsContract(QueueCase):
    """A take that is recorded says what it saw at each look; all others say nothing."""

    def looks(self, queue: DispatchQueue, n: int, threads: ThreadUse | None = None) -> tuple[Look, ...]:
        return queue.take("w", n, LEASE_MS, record=True, threads=threads).looks

    def test_a_look_has_the_heads_the_balance_and_the_version_of_the_policy(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.set_shares(Shares(), 7)
        queue.put(
            [
                replace(self.entry(clock, "high", -5000, tier=2), tenant="a|b=1,\n", by_deadline=True),
                self.entry(clock, "low", -9000, tier=4),
                self.entry(clock, "later", 9000, tier=2),
            ]
        )
        first, second = self.looks(queue, 2)
        high, low = Contender("high", clock.ms - 5000, "a|b=1,\n", True), Contender("low", clock.ms - 9000)
        assert (first.at, first.policy, first.idle, first.tier, first.run) == (clock.ms, 7, 2, 4, low)
        assert first.heads == (None, high, None, low, None)
        assert (first.owed, first.room) == ((0.0,) * 5, (2.0,) * 5)
        assert (second.idle, second.run, second.owed[1]) == (1, high, Shares().guaranteed[1])
        assert replay_decision(second, Shares()) == (2, high)

    def test_a_look_at_a_run_that_lacks_a_pool_says_which_and_how_much_was_free(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.set_pool("cpu", slots(4))
        queue.set_pool("gpu", slots(2))
        queue.put([self.entry(clock, "large", -1, {"cpu": 1, "gpu": 3, "net": 1}), self.entry(clock, "small")])
        parked, started = self.looks(queue, 1)
        assert parked.pools == (PoolSeen("cpu", 1, 4), PoolSeen("gpu", 3, 2, Why.TOO_SMALL))
        assert (parked.run.run_id, parked.lacked) == ("large", parked.pools[1])
        assert (started.run.run_id, started.pools, started.lacked) == ("small", (), None)

    def test_a_tier_that_the_headroom_keeps_waiting_is_recorded_and_replayed(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.put([self.entry(clock, "high", 5000, tier=2), self.entry(clock, "low", tier=4)])
        (look,) = self.looks(queue, 1, ThreadUse(8, 7, (0, 0, 1, 1, 1)))
        assert (look.run.run_id, look.headroom) == ("high", (0, 0, 1, 1, 1))
        assert look.heads[3] == Contender("low", clock.ms)
        assert replay_decision(look, Shares(), headroom=(0,) * 5) == (4, look.heads[3])

    def test_the_run_of_the_tenant_whose_turn_it_is_is_replayed(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([replace(self.entry(clock, f"a{n}", n), tenant="acme") for n in range(3)])
        queue.put([replace(self.entry(clock, "b", 9), tenant="globex")])
        first, second = self.looks(queue, 2)
        assert (first.run.run_id, second.run.run_id, second.heads[2]) == (
            "a0",
            "b",
            Contender("a1", clock.ms + 1, "acme"),
        )
        assert replay_decision(second, Shares()) == (3, second.run)

    def test_only_a_recorded_take_has_looks_and_no_more_than_are_kept(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([Entry(f"r{n:02}", clock.ms) for n in range(2 * MAX_LOOKS_RECORDED + 2)])
        assert queue.take("w", 1, LEASE_MS).looks == ()
        taken = queue.take("w", 2 * MAX_LOOKS_RECORDED, LEASE_MS, nonce="n", record=True)
        assert (len(taken.grants), len(taken.looks)) == (2 * MAX_LOOKS_RECORDED, MAX_LOOKS_RECORDED)
        again = queue.take("w", 2 * MAX_LOOKS_RECORDED, LEASE_MS, nonce="n", record=True)
        assert (again.grants, again.looks) == (taken.grants, ())
