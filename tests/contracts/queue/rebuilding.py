"""A `DispatchQueue` that lost everything is filled again, by one at a time."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from duetime.scheduler.queue import DispatchQueue, Entry, Finish, QueueLost
from duetime.scheduler.queue.constants import MIN_DAMAGE_INTERVAL_MS

from tests.contracts.queue.case import CALM_MS, LEASE_MS, Clock, QueueCase, slots

BUILDING_MS = 30_000.0


class RebuildContract(QueueCase):
    """Until it is whole again nothing is handed out, and nobody is told that a lease is good or bad."""

    def rebuilding(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(2))
        queue.put([self.entry(clock, "a", 0, {"gpu": 1}), self.entry(clock, "b", 1)])
        self.taken(queue, 1)
        assert queue.begin_rebuild("me")

    def test_it_begins_empty(self, queue: DispatchQueue, clock: Clock) -> None:
        self.rebuilding(queue, clock)
        stats = queue.stats()
        assert (stats.waiting, stats.leased, stats.pools) == ((0,) * 5, 0, {})
        assert queue.explain("a") is None

    def test_nothing_is_handed_out_and_no_token_judged_while_it_is_filled(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        self.rebuilding(queue, clock)
        assert queue.put([self.entry(clock, "b", 1)]) == 1
        take = queue.take("w", 9, LEASE_MS)
        assert (take.grants, take.hint) == ((), 0.05)
        refused: list[Callable[[], object]] = [
            lambda: self.renew(queue, "a"),
            lambda: self.finish(queue, "a"),
            lambda: self.give_back(queue, "a"),
        ]
        for call in refused:
            with pytest.raises(QueueLost):
                call()
        assert queue.end_rebuild("me")
        assert self.taken(queue) == ["b"]

    def test_a_running_run_is_taken_up_with_its_reservation(self, queue: DispatchQueue, clock: Clock) -> None:
        self.rebuilding(queue, clock)
        queue.set_pool("gpu", slots(2))
        running = Entry("a", clock.ms, needs={"gpu": 2})
        assert queue.adopt("w", running, "from the store", LEASE_MS)
        assert not queue.adopt("w", running, "from the store", LEASE_MS)
        queue.put([self.entry(clock, "a"), self.entry(clock, "c", 1e9, {"gpu": 1})])
        assert queue.end_rebuild("me")
        assert self.taken(queue) == []
        assert queue.renew("w", {"a": "from the store"}, LEASE_MS) == set()
        assert queue.finish("w", [Finish("a", "from the store")]) == set()
        assert self.taken(queue) == ["a", "c"]
        assert self.pool(queue, "gpu").used == 1

    def test_more_may_be_taken_up_than_a_pool_has_and_then_nothing_starts(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        self.rebuilding(queue, clock)
        queue.set_pool("gpu", slots(1))
        for run_id in "xy":
            assert queue.adopt("w", Entry(run_id, clock.ms, needs={"gpu": 1}), f"token of {run_id}", LEASE_MS)
        queue.put([self.entry(clock, "c", 0, {"gpu": 1})])
        assert queue.end_rebuild("me")
        assert self.pool(queue, "gpu").free == -1
        queue.finish("w", [Finish("x", "token of x")])
        assert self.taken(queue) == []
        queue.finish("w", [Finish("y", "token of y")])
        assert self.taken(queue) == ["c"]

    def test_one_at_a_time_rebuilds_for_half_a_minute_at_most(self, queue: DispatchQueue, clock: Clock) -> None:
        self.rebuilding(queue, clock)
        assert not queue.begin_rebuild("you")
        assert not queue.end_rebuild("you")
        clock.ms += BUILDING_MS
        assert not queue.end_rebuild("me")
        with pytest.raises(QueueLost):
            queue.take("w", 1, LEASE_MS)
        with pytest.raises(QueueLost):
            queue.put([self.entry(clock, "late")])
        assert queue.begin_rebuild("you")
        assert queue.end_rebuild("you")
        assert not queue.end_rebuild("you")
        assert self.taken(queue) == []

    def test_a_damaged_queue_is_emptied_once_in_ten_seconds(self, queue: DispatchQueue, clock: Clock) -> None:
        clock.ms += MIN_DAMAGE_INTERVAL_MS
        assert queue.begin_rebuild("me", damage="a key was lost")
        assert queue.begin_rebuild("me", damage="a key was lost"), "who fills it may begin again"
        assert queue.end_rebuild("me")
        assert not queue.begin_rebuild("you", damage="a key was lost")
        assert queue.put([self.entry(clock, "a")]) == 1
        clock.ms += MIN_DAMAGE_INTERVAL_MS
        assert queue.begin_rebuild("you", damage="a key was lost")
        assert queue.end_rebuild("you")
        assert self.taken(queue) == []
        assert queue.begin_rebuild("me"), "a queue that lost everything need not wait"

    def test_a_new_beginning_forgets_what_was_filled_in(self, queue: DispatchQueue, clock: Clock) -> None:
        self.rebuilding(queue, clock)
        queue.put([self.entry(clock, "half")])
        assert queue.begin_rebuild("me")
        assert queue.end_rebuild("me")
        assert self.taken(queue) == []

    def test_tokens_of_before_hold_nothing_afterwards(self, queue: DispatchQueue, clock: Clock) -> None:
        self.rebuilding(queue, clock)
        before = self.token("a")
        queue.set_pool("gpu", slots(2))
        queue.put([self.entry(clock, "a", 0, {"gpu": 1})])
        assert queue.end_rebuild("me")
        assert self.taken(queue) == ["a"]
        assert self.token("a") != before
        assert queue.renew("w", {"a": before}, LEASE_MS) == {"a"}
        assert queue.finish("w", [Finish("a", before)]) == {"a"}
        assert not queue.give_back("w", "a", before)
        assert self.finish(queue, "a")

    def test_after_an_outage_nobody_is_reaped_before_everyone_could_renew(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.put([self.entry(clock, "a")])
        self.taken(queue)
        clock.ms += CALM_MS + LEASE_MS + 1
        assert queue.reap() == []
        for _ in range(6):
            clock.ms += CALM_MS
            queue.stats()
        assert queue.reap() == ["a"]
