"""Who holds a run of a `DispatchQueue`, and for how long."""

from __future__ import annotations

from duetime.scheduler.queue import DispatchQueue, Finish

from tests.contracts.queue.case import LEASE, Clock, QueueCase, slots


class LeaseContract(QueueCase):
    """Tokens, leases and what ends them."""

    def test_only_the_token_finishes_renews_or_gives_back(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.entry(clock, "a")])
        assert self.taken(queue) == ["a"]
        assert queue.finish("w", [Finish("a", "no token of it")]) == {"a"}
        assert not queue.give_back("w", "a", "no token of it")
        assert queue.renew("w", {"a": "no token of it"}, LEASE) == {"a"}
        assert self.finish(queue, "a")
        assert not self.finish(queue, "a")
        assert not self.give_back(queue, "a")
        assert self.renew(queue, "a") == {"a"}

    def test_a_renewed_lease_lasts_and_an_expired_one_is_reaped(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.entry(clock, "a")])
        self.taken(queue)
        clock.ms += LEASE - 1
        assert self.renew(queue, "a") == set()
        clock.ms += LEASE - 1
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
        clock.ms += LEASE
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
        self.give_back(queue, "a", clock.ms + 1000)
        assert self.taken(queue) == ["b"]
        clock.ms += 1000
        assert self.taken(queue) == ["a"]
