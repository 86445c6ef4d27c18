"""A `DispatchQueue` whose clock is set back, or leaps forward: what lasts goes on, the calendar follows the clock."""

from __future__ import annotations

import pytest
from duetime.scheduler.queue import DispatchQueue, Kind, Limits, Report, Why

from tests.contracts.queue.case import CALM_MS, LEASE_MS, Clock, QueueCase, slots

SECOND_MS = 1000.0
HOUR_MS = 3600 * SECOND_MS


class ClockStepsContract(QueueCase):
    """Somebody sets the clock by an hour, or a time service corrects it a little, again and again."""

    @pytest.mark.parametrize("back", [1.5 * SECOND_MS, HOUR_MS, 365 * 24 * HOUR_MS])
    def test_a_rate_goes_on(self, queue: DispatchQueue, clock: Clock, back: float) -> None:
        queue.set_pool("api", Limits(Kind.RATE, 1, refill=1 / SECOND_MS))
        queue.put([self.entry(clock, f"r{i}", i, {"api": 1}) for i in range(9)])
        assert self.taken(queue) == ["r0"]
        for run in ("r1", "r2", "r3"):
            clock.ms -= back
            assert self.taken(queue) == []
            assert self.patiently(queue, clock) == (SECOND_MS, [run])

    def test_the_slot_of_a_dead_worker_is_free_when_its_lease_is_over(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(1))
        queue.put([self.entry(clock, f"r{i}", i, {"gpu": 1}) for i in range(2)])
        assert self.taken(queue) == ["r0"]
        clock.ms -= HOUR_MS
        assert queue.reap() == []
        clock.ms += LEASE_MS - 1
        assert queue.reap() == []
        clock.ms += 1
        assert queue.reap() == ["r0"]
        assert self.taken(queue) == ["r1"]

    def test_a_live_lease_stays_through_steps_in_both_directions(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.entry(clock, "a")])
        assert self.taken(queue) == ["a"]
        for step in (-HOUR_MS, HOUR_MS, HOUR_MS, -HOUR_MS, -HOUR_MS, HOUR_MS):
            clock.ms += step
            assert queue.reap() == []
            assert self.renew(queue, "a") == set()
            clock.ms += LEASE_MS - 1
            assert queue.reap() == []
            assert self.renew(queue, "a") == set()

    def test_after_a_leap_forward_everyone_may_renew_before_anyone_is_reaped(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.put([self.entry(clock, "alive"), self.entry(clock, "dead", 1)])
        assert self.taken(queue) == ["alive", "dead"]
        clock.ms += HOUR_MS
        for _ in range(8):
            assert queue.reap() == []
            assert self.renew(queue, "alive") == set()
            clock.ms += LEASE_MS - 1
        assert queue.reap() == ["dead"]

    def test_a_delay_goes_on(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.entry(clock, "soon", after=SECOND_MS)])
        assert self.taken(queue) == []
        clock.ms -= HOUR_MS
        assert self.patiently(queue, clock) == (SECOND_MS, ["soon"])

    def test_a_breaker_and_a_provider_that_said_when_are_waited_for_no_longer(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.set_pool("api", slots(1, failures=1, cooldown=9 * SECOND_MS))
        queue.put([self.entry(clock, f"r{i}", 1e9 + i, {"api": 1}, tier=1) for i in range(3)])
        assert self.taken(queue) == ["r0"]
        self.finish(queue, "r0", reports=(Report("api", ok=False),))
        clock.ms -= HOUR_MS
        assert self.taken(queue) == []
        assert self.pool(queue, "api").until == clock.ms + 9 * SECOND_MS
        assert self.patiently(queue, clock) == (9 * SECOND_MS, ["r1"])

    def test_small_corrections_do_not_add_up(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.entry(clock, "later", after=60 * SECOND_MS)])
        for _ in range(50):
            for step in (-900.0, 900.0):
                clock.ms += step
                assert self.taken(queue) == []
        assert self.patiently(queue, clock) == (60 * SECOND_MS, ["later"])

    def test_hours_of_the_calendar_follow_the_clock(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("night", slots(0, steps=((clock.ms + 10 * SECOND_MS, 1.0),)))
        queue.put([self.entry(clock, "r", 0, {"night": 1})])
        assert self.taken(queue) == []
        clock.ms -= HOUR_MS
        lacking = self.shortage(queue, "r")
        assert (lacking.why, lacking.helped_at) == (Why.SHORT, clock.ms + HOUR_MS + 10 * SECOND_MS)
        assert self.pool(queue, "night").until == clock.ms + HOUR_MS + 10 * SECOND_MS
        assert self.patiently(queue, clock) == (HOUR_MS + 10 * SECOND_MS, ["r"])

    def test_a_window_that_the_clock_shows_twice_has_one_budget(self, queue: DispatchQueue, clock: Clock) -> None:
        ends = (clock.ms + SECOND_MS, clock.ms + 2 * HOUR_MS)
        queue.set_pool("money", Limits(Kind.BUDGET, 100, resets=ends))
        queue.put([self.entry(clock, f"r{i}", i, {"money": 100}) for i in range(3)])
        for run in ("r0", "r1"):
            assert self.taken(queue) == [run]
            self.finish(queue, run)
            assert self.taken(queue) == []
            clock.ms += 2 * SECOND_MS
        clock.ms -= HOUR_MS
        for _ in range(2):
            assert self.taken(queue) == []
            clock.ms += HOUR_MS
        assert self.taken(queue) == []
        assert self.patiently(queue, clock) == (HOUR_MS - 4 * SECOND_MS, ["r2"])

    def test_a_pool_that_is_declared_again_keeps_to_the_clock(self, queue: DispatchQueue, clock: Clock) -> None:
        clock.ms -= HOUR_MS
        queue.set_pool("night", slots(0, steps=((clock.ms + 10 * SECOND_MS, 1.0),)))
        queue.put([self.entry(clock, "r", 0, {"night": 1})])
        assert self.patiently(queue, clock) == (10 * SECOND_MS, ["r"])

    def test_runs_are_overdue_by_the_clock(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(2))
        queue.put([self.entry(clock, "a", 0, {"gpu": 1}), self.entry(clock, "large", 5 * SECOND_MS, {"gpu": 2})])
        assert self.taken(queue) == ["a"]
        clock.ms -= HOUR_MS
        queue.put([self.entry(clock, "small", 2 * HOUR_MS, {"gpu": 1})])
        assert self.taken(queue) == ["small"]

    def test_a_delayed_run_is_explained_by_the_clock(self, queue: DispatchQueue, clock: Clock) -> None:
        clock.ms -= HOUR_MS
        queue.put([self.entry(clock, "later", after=7 * SECOND_MS)])
        explained = queue.explain("later")
        assert explained is not None
        assert explained.not_before == clock.ms + 7 * SECOND_MS

    def test_a_rebuild_after_a_step_has_as_long_as_ever(self, queue: DispatchQueue, clock: Clock) -> None:
        assert queue.begin_rebuild("me")
        clock.ms -= HOUR_MS
        assert not queue.begin_rebuild("you")
        clock.ms += 6 * CALM_MS
        assert queue.begin_rebuild("you")
        assert queue.end_rebuild("you")
