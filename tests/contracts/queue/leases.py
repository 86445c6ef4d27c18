"""Leases: which worker holds a run of a `DispatchQueue`, and for how long."""

from __future__ import annotations

from duetime.scheduler.queue import Cancelled, DispatchQueue, Finish, Kind, Limits

from tests.contracts.queue.case import LEASE_MS, Clock, QueueCase, slots


class LeaseContract(QueueCase):
    """Tokens, leases and what ends them."""

    def test_only_the_token_finishes_renews_or_gives_back(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.entry(clock, "a")])
        assert self.taken(queue) == ["a"]
        assert queue.finish("w", [Finish("a", "no token of it")]) == {"a"}
        assert not queue.give_back("w", "a", "no token of it")
        assert queue.renew("w", {"a": "no token of it"}, LEASE_MS) == {"a"}
        assert self.finish(queue, "a")
        assert not self.finish(queue, "a")
        assert not self.give_back(queue, "a")
        assert self.renew(queue, "a") == {"a"}

    def test_a_renewed_lease_lasts_and_an_expired_one_is_reaped(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.entry(clock, "a")])
        self.taken(queue)
        clock.ms += LEASE_MS - 1
        assert self.renew(queue, "a") == set()
        clock.ms += LEASE_MS - 1
        assert queue.reap() == []
        clock.ms += 1
        assert queue.reap() == ["a"]
        assert queue.reap() == []
        assert not self.finish(queue, "a")
        assert self.taken(queue) == []

    def test_reaping_releases_the_pools(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(1))
        queue.put([self.entry(clock, f"r{i}", i, {"gpu": 1}) for i in range(2)])
        assert self.taken(queue) == ["r0"]
        clock.ms += LEASE_MS
        assert queue.reap() == ["r0"]
        assert self.taken(queue) == ["r1"]

    def test_a_run_given_back_keeps_its_place(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(1))
        queue.put([self.entry(clock, f"r{i}", i, {"gpu": 1}) for i in range(3)])
        assert self.taken(queue) == ["r0"]
        assert self.give_back(queue, "r0")
        assert self.taken(queue) == ["r0"]

    def test_a_run_given_back_for_later_lets_others_go_first(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.entry(clock, "a"), self.entry(clock, "b", 1)])
        assert self.taken(queue, 1) == ["a"]
        self.give_back(queue, "a", 1000)
        assert self.taken(queue) == ["b"]
        clock.ms += 1000
        assert self.taken(queue) == ["a"]

    def test_a_run_put_again_while_leased_and_then_given_back_takes_its_newer_place(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.put([self.entry(clock, "a", 9), self.entry(clock, "b", 5)])
        assert self.taken(queue) == ["b", "a"]
        queue.put([self.entry(clock, "a", 1, tier=1, after=2000)])
        self.give_back(queue, "a", 1000)
        self.give_back(queue, "b", 1500)
        clock.ms += 1500
        assert self.taken(queue) == ["b"], "the later of the two times holds"
        self.give_back(queue, "b", 500)
        clock.ms += 500
        assert self.taken(queue) == ["a", "b"]

    def test_a_run_that_is_given_back_has_used_nothing(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("tokens", Limits(Kind.RATE, 10))
        queue.set_pool("money", Limits(Kind.BUDGET, 10))
        queue.put([self.entry(clock, "a", 0, {"tokens": 7, "money": 7})])
        for _ in range(3):
            assert self.taken(queue) == ["a"]
            assert self.give_back(queue, "a")
        assert (self.pool(queue, "tokens").free, self.pool(queue, "money").spent) == (10, 0)

    def test_runs_put_again_while_leased_come_back_after_a_reap_but_not_after_a_cancel(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.put([self.entry(clock, "a"), self.entry(clock, "b", 1)])
        assert self.taken(queue) == ["a", "b"]
        assert queue.put([self.entry(clock, "a"), self.entry(clock, "b", 1)]) == 0
        assert queue.cancel("b") is Cancelled.LEASED
        clock.ms += LEASE_MS
        assert queue.reap() == ["a", "b"]
        assert self.taken(queue) == ["a"]

    def test_a_reap_forgets_a_hundred_at_a_time_the_longest_over_first(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.put([self.entry(clock, f"r{i:03}", i) for i in range(120)])
        self.taken(queue, 60, lease=LEASE_MS)
        self.taken(queue, 60, lease=LEASE_MS - 1)
        clock.ms += LEASE_MS
        first = queue.reap()
        assert first == [f"r{i:03}" for i in [*range(60, 120), *range(40)]]
        assert len(queue.reap()) == 20

    # Repeated takes

    def test_a_repeated_take_gives_the_same_again_and_nothing_more(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.entry(clock, f"r{i}", i) for i in range(4)])
        first = self.take(queue, 2, nonce="n1")
        assert queue.take("w", 2, LEASE_MS, nonce="n1").grants == first.grants
        assert queue.take("w", 2, LEASE_MS, nonce="n1").hint == 0
        assert self.finish(queue, "r0")
        assert queue.take("w", 2, LEASE_MS, nonce="n1").grants == first.grants[1:]
        assert self.take(queue, 1, nonce="n2").run_ids == ("r2",)
        assert self.take(queue, 1, nonce="n1").run_ids == ("r3",)

    def test_each_worker_has_its_own_nonces_and_an_empty_one_is_none(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.entry(clock, f"r{i}", i) for i in range(4)])
        assert self.take(queue, 1, "w1", nonce="n").run_ids == ("r0",)
        assert self.take(queue, 1, "w2", nonce="n").run_ids == ("r1",)
        assert self.take(queue, 1, "w1").run_ids == ("r2",)
        assert self.take(queue, 1, "w1").run_ids == ("r3",)

    def test_a_repeated_take_leaves_out_runs_that_were_granted_again(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.entry(clock, "a")])
        self.take(queue, 1, "w1", nonce="n")
        assert self.give_back(queue, "a")
        assert self.take(queue, 1, "w2", nonce="n").run_ids == ("a",)
        assert queue.take("w1", 1, LEASE_MS, nonce="n").grants == ()

    def test_no_two_grants_have_the_same_token(self, queue: DispatchQueue, clock: Clock) -> None:
        tokens = set()
        for n in range(50):
            queue.put([self.entry(clock, f"r{n % 7}")])
            for grant in self.take(queue).grants:
                tokens.add(grant.token)
                self.finish(queue, grant.run_id)
        assert len(tokens) == 50
