"""Threads that a worker keeps for urgent runs, and for whom it should make room when it has none."""

from __future__ import annotations

import pytest
from duetime.scheduler.queue import DispatchQueue, ThreadUse
from duetime.scheduler.queue.constants import PREEMPTOR_HOLD_MS, THREADS_KNOWN_MS
from duetime.scheduler.rules.headroom import Headroom

from tests.contracts.queue.case import LEASE_MS, Clock, QueueCase, slots

HEADROOM = (0, 1, 2, 2, 2)
ALL = (1, 5)
NAMES = {1: "critical", 2: "high", 3: "normal", 4: "low", 5: "background"}


class ThreadsContract(QueueCase):
    """Headroom by tier, and preemptors."""

    def one_of_each(self, queue: DispatchQueue, clock: Clock) -> None:
        """Put a run of each tier, the least urgent with the smallest key."""
        queue.put([self.entry(clock, name, -tier, tier=tier) for tier, name in NAMES.items()])

    def on(self, queue: DispatchQueue, idle: int, headroom: Headroom = HEADROOM, worker: str = "w") -> list[str]:
        threads = ThreadUse(16, 16 - idle, headroom)
        take = queue.take(worker, idle, LEASE_MS, threads=threads)
        self.grants |= {grant.run_id: grant for grant in take.grants}
        return sorted(take.run_ids)

    @pytest.mark.parametrize(("idle", "started"), [(0, []), (1, ["critical"]), (2, ["critical"])])
    def test_the_last_idle_threads_are_left_to_critical_and_high_runs(
        self, queue: DispatchQueue, clock: Clock, idle: int, started: list[str]
    ) -> None:
        self.one_of_each(queue, clock)
        queue.put([self.entry(clock, "critical2", 5, tier=1)])
        assert queue.cancel("high" if idle == 2 else "") in ("removed", "absent")
        assert self.on(queue, idle) == [*started, *(["critical2"] if idle == 2 else [])]

    def test_a_high_run_leaves_the_last_thread_to_a_critical_one(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.entry(clock, f"high{n}", n, tier=2) for n in range(3)])
        assert self.on(queue, 2) == ["high0"]
        assert self.on(queue, 1) == []

    def test_other_runs_get_what_is_beyond_the_headroom(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.entry(clock, f"r{n:02}", n, tier=5) for n in range(20)])
        assert len(self.on(queue, 16)) == 14
        assert self.on(queue, 2) == []
        assert queue.stats().waiting[4] == 6

    def test_a_worker_without_headroom_takes_everything(self, queue: DispatchQueue, clock: Clock) -> None:
        self.one_of_each(queue, clock)
        assert len(self.on(queue, 5, headroom=(0, 0, 0, 0, 0))) == 5

    def test_runs_that_are_left_for_want_of_a_thread_are_there_for_the_next(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        self.one_of_each(queue, clock)
        assert self.on(queue, 1) == ["critical"]
        assert self.on(queue, 1) == []
        assert self.on(queue, 16, worker="other") == ["background", "high", "low", "normal"]

    def test_stats_tell_the_threads_of_each_worker_as_it_reported_them_last(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.put([self.entry(clock, f"r{n}", n, tier=5) for n in range(3)])
        self.on(queue, 16)
        queue.take("x", 0, LEASE_MS, threads=ThreadUse(4, 3, preempted=2, lost=1, withheld=1))
        queue.take("silent", 1, LEASE_MS)
        assert queue.stats().threads == {
            "w": ThreadUse(16, 3, HEADROOM),
            "x": ThreadUse(4, 3, preempted=2, lost=1, withheld=1),
        }
        clock.ms += THREADS_KNOWN_MS
        queue.assign_preemptors("x", 0, ALL, 0, threads=ThreadUse(4, 1))
        clock.ms += 1
        assert queue.stats().threads == {"x": ThreadUse(4, 1)}

    def test_runs_claimed_ahead_of_threads_do_not_count_as_busy_threads(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.put([self.entry(clock, f"r{n}", n) for n in range(9)])
        queue.take("w", 9, LEASE_MS, threads=ThreadUse(4, 3))
        assert queue.stats().threads["w"].busy == 4

    def test_explain_adds_up_the_threads_for_a_run_that_waits_for_one(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.entry(clock, "a", tier=5)])
        found = queue.explain("a")
        assert found is not None
        assert found.threads is None, "nobody reported any"
        self.on(queue, 2)
        self.on(queue, 1, worker="x")
        found = queue.explain("a")
        assert found is not None
        assert found.threads == ThreadUse(32, 29, (0, 2, 4, 4, 4))
        queue.assign_preemptors("w", 0, (1, 0), 0, threads=ThreadUse(16, 4, withheld=12))
        queue.assign_preemptors("x", 0, (1, 0), 0, threads=ThreadUse(16, 6, withheld=7))
        found = queue.explain("a")
        assert found is not None
        assert found.threads is not None
        assert (found.threads.withheld, found.threads.idle) == (19, 3)

    # --- for whom a worker makes room

    def test_a_worker_makes_room_for_runs_past_their_key_in_order(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.entry(clock, f"normal{n}", -n) for n in range(2)])
        queue.put([self.entry(clock, "critical", 900, tier=1), self.entry(clock, "high", 1001, tier=2)])
        assert queue.assign_preemptors("w", 9, (1, 4), 1000) == (1, 3, 3)

    def test_runs_of_other_tiers_are_no_preemptors(self, queue: DispatchQueue, clock: Clock) -> None:
        self.one_of_each(queue, clock)
        assert queue.assign_preemptors("w", 9, (2, 3), 0) == (2, 3)

    def test_one_worker_alone_makes_room_for_a_run_until_nothing_came_of_it(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.put([self.entry(clock, f"r{n}", tier=1) for n in range(3)])
        assert queue.assign_preemptors("w", 1, ALL, 0) == (1,)
        assert queue.assign_preemptors("x", 1, ALL, 0) == (1,)
        assert queue.assign_preemptors("w", 9, ALL, 0) == (1,)
        assert queue.assign_preemptors("x", 9, ALL, 0) == ()
        clock.ms += PREEMPTOR_HOLD_MS - 1
        assert queue.assign_preemptors("x", 9, ALL, 0) == ()
        clock.ms += 1
        assert queue.assign_preemptors("x", 9, ALL, 0) == (1, 1, 1)

    def test_a_worker_that_can_make_no_room_promises_none(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.entry(clock, "a", tier=1)])
        assert queue.assign_preemptors("full", 0, ALL, 0) == ()
        assert queue.assign_preemptors("w", 1, ALL, 0) == (1,)

    def test_a_run_that_lacks_a_pool_is_no_preemptor(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(0))
        queue.put([self.entry(clock, "a", needs={"gpu": 1}, tier=1)])
        assert self.taken(queue) == []
        assert queue.assign_preemptors("w", 9, ALL, 0) == ()

    def test_nobody_makes_room_while_the_queue_is_rebuilt(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.entry(clock, "a", tier=1)])
        assert queue.begin_rebuild("me")
        queue.put([self.entry(clock, "a", tier=1)])
        assert queue.assign_preemptors("w", 9, ALL, 0) == ()

    def test_a_wait_for_urgent_runs_ends_when_one_is_there(self, queue: DispatchQueue, clock: Clock) -> None:
        generation = queue.take("w", 1, LEASE_MS, threads=ThreadUse(16, 15, HEADROOM)).generation
        queue.put([self.entry(clock, "a", tier=1)])
        self.returns(lambda: queue.wait(generation, 60, tier=1))
        assert self.on(queue, 1) == ["a"]

    def test_a_wait_for_urgent_runs_ends_when_one_is_there_for_later(self, queue: DispatchQueue, clock: Clock) -> None:
        generation = queue.take("w", 2, LEASE_MS, threads=ThreadUse(16, 14, HEADROOM)).generation
        queue.put([self.entry(clock, "a", tier=2, after=500)])
        self.returns(lambda: queue.wait(generation, 60, tier=2))
        assert queue.take("w", 2, LEASE_MS, threads=ThreadUse(16, 14, HEADROOM)).hint == pytest.approx(0.5)

    def test_a_wait_for_urgent_runs_ends_when_a_pool_lets_one_in(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(1))
        queue.put([self.entry(clock, "a", needs={"gpu": 1})])
        assert self.taken(queue) == ["a"]
        queue.put([self.entry(clock, "b", needs={"gpu": 1}, tier=1)])
        assert self.on(queue, 1) == []
        generation = queue.take("w", 1, LEASE_MS, threads=ThreadUse(16, 15, HEADROOM)).generation
        self.finish(queue, "a")
        self.returns(lambda: queue.wait(generation, 60, tier=1))
        assert self.on(queue, 1) == ["b"]
