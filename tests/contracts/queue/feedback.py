"""Feedback of runs to a `DispatchQueue`: breakers, throttling, and pauses."""

from __future__ import annotations

from typing import Any

import pytest
from duetime.scheduler.queue import DispatchQueue, Finish, Report, Why
from duetime.scheduler.rules.limits.admission import Kind, Limits

from tests.contracts.queue.case import LEASE_MS, Clock, QueueCase, slots

COOLDOWN_MS = 1000.0
FAILED = Report("api", ok=False)
OK = Report("api")


def breaking(capacity: float = 2, failures: int = 3, **more: Any) -> Limits:
    return slots(capacity, failures=failures, cooldown=COOLDOWN_MS, **more)


class FeedbackContract(QueueCase):
    """Nothing here fails a run: what a pool cannot serve now is held."""

    def load(self, queue: DispatchQueue, clock: Clock, limits: Limits, n: int = 60) -> None:
        queue.set_pool("api", limits)
        queue.put([self.entry(clock, f"r{i:02}", 1e9 + i, {"api": 1}) for i in range(n)])

    def ends(self, queue: DispatchQueue, report: Report, times: int = 1) -> None:
        """Run one after the other, each ending with the same report."""
        for _ in range(times):
            (run_id,) = self.taken(queue, 1)
            assert self.finish(queue, run_id, reports=(report,))

    def state(self, queue: DispatchQueue) -> str:
        return self.pool(queue, "api").state

    # Breaker

    def test_failures_in_a_row_open_the_breaker_and_what_waits_is_held(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        self.load(queue, clock, breaking())
        self.ends(queue, FAILED, 2)
        self.ends(queue, OK)
        self.ends(queue, FAILED, 2)
        assert self.state(queue) == "admitting"
        self.ends(queue, FAILED)
        assert self.state(queue) == "tripped"
        assert self.taken(queue) == []
        lacking = self.shortage(queue, "r59")
        assert (lacking.why, lacking.helped_at) == (Why.BREAKER, clock.ms + COOLDOWN_MS)
        assert queue.stats().parked == 54

    def test_a_rate_of_failures_opens_the_breaker(self, queue: DispatchQueue, clock: Clock) -> None:
        self.load(queue, clock, breaking(failures=99, error_rate=0.5, samples=10))
        for _ in range(4):
            self.ends(queue, FAILED)
            self.ends(queue, OK)
        assert self.state(queue) == "admitting"
        self.ends(queue, FAILED, 2)
        assert self.state(queue) == "tripped"

    def test_one_probe_closes_the_breaker_or_opens_it_for_twice_as_long(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        self.load(queue, clock, breaking())
        self.ends(queue, FAILED, 3)
        for doubling in range(1, 4):
            waited, probe = self.patiently(queue, clock)
            assert (waited, probe) == (COOLDOWN_MS * 2 ** (doubling - 1), [f"r{doubling + 2:02}"])
            assert self.state(queue) == "probing"
            assert self.taken(queue) == []
            self.finish(queue, probe[0], reports=(FAILED,))
        _, (probe_id,) = self.patiently(queue, clock)
        self.finish(queue, probe_id, reports=(OK,))
        assert self.state(queue) == "admitting"
        assert len(self.taken(queue)) == 2

    @pytest.mark.parametrize("way", ["reaped", "given back", "unreported"])
    def test_a_probe_that_says_nothing_leaves_its_place_to_another(
        self, queue: DispatchQueue, clock: Clock, way: str
    ) -> None:
        self.load(queue, clock, breaking())
        self.ends(queue, FAILED, 3)
        _, (probe,) = self.patiently(queue, clock)
        if way == "reaped":
            clock.ms += LEASE_MS
            assert queue.reap() == [probe]
        elif way == "given back":
            assert self.give_back(queue, probe)
        else:
            assert self.finish(queue, probe)
        assert self.state(queue) == "probing"
        assert len(self.taken(queue)) == 1

    def test_answers_from_before_the_breaker_opened_do_not_count(self, queue: DispatchQueue, clock: Clock) -> None:
        self.load(queue, clock, breaking(capacity=5, failures=1))
        first, *others = self.taken(queue)
        self.finish(queue, first, reports=(FAILED,))
        self.finish(queue, *others[:2], reports=(OK,))
        self.finish(queue, *others[2:], reports=(FAILED,))
        assert self.state(queue) == "tripped"
        assert self.patiently(queue, clock)[0] == COOLDOWN_MS

    @pytest.mark.parametrize("late", [OK, FAILED])
    @pytest.mark.parametrize("found", [OK, FAILED])
    def test_while_one_probes_nobody_elses_answer_counts(
        self, queue: DispatchQueue, clock: Clock, late: Report, found: Report
    ) -> None:
        self.load(queue, clock, breaking(capacity=5, failures=1))
        first, *others = self.taken(queue, lease=1e6)
        self.finish(queue, first, reports=(FAILED,))
        _, (probe,) = self.patiently(queue, clock)
        self.finish(queue, *others[:2], reports=(late,))
        assert self.state(queue) == "probing"
        assert self.taken(queue) == []
        self.finish(queue, probe, reports=(found,))
        assert self.state(queue) == ("admitting" if found.ok else "tripped")
        if not found.ok:
            assert self.patiently(queue, clock)[0] == 2 * COOLDOWN_MS

    def test_an_old_answer_counts_no_more_when_the_probe_has_left_without_one(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        self.load(queue, clock, breaking(capacity=5, failures=1))
        first, *others = self.taken(queue, lease=1e6)
        self.finish(queue, first, reports=(FAILED,))
        _, (probe,) = self.patiently(queue, clock)
        assert self.give_back(queue, probe, delay=COOLDOWN_MS)
        self.finish(queue, *others[:2], reports=(OK,))
        self.finish(queue, *others[2:], reports=(FAILED,))
        assert self.state(queue) == "probing"
        (another,) = self.taken(queue)
        assert another != probe
        self.finish(queue, another, reports=(OK,))
        assert self.state(queue) == "admitting"

    def test_a_probe_that_says_two_things_is_believed_once(self, queue: DispatchQueue, clock: Clock) -> None:
        self.load(queue, clock, breaking(failures=1))
        self.ends(queue, FAILED)
        _, (probe,) = self.patiently(queue, clock)
        self.finish(queue, probe, reports=(FAILED, OK, FAILED))
        assert self.state(queue) == "tripped"
        assert self.patiently(queue, clock)[0] == 2 * COOLDOWN_MS

    def test_a_probe_that_is_told_to_wait_leaves_its_place_to_another(self, queue: DispatchQueue, clock: Clock) -> None:
        self.load(queue, clock, breaking(failures=1))
        self.ends(queue, FAILED)
        _, (probe,) = self.patiently(queue, clock)
        self.finish(queue, probe, reports=(Report("api", ok=False, throttled=True, retry_after=7000),))
        assert self.state(queue) == "probing"
        waited, (another,) = self.patiently(queue, clock)
        assert waited >= 7000
        assert another != probe
        self.finish(queue, another, reports=(OK,))
        assert self.state(queue) == "admitting"

    def test_a_run_started_before_the_breaker_opened_is_not_a_probe(self, queue: DispatchQueue, clock: Clock) -> None:
        self.load(queue, clock, breaking(capacity=5, failures=1))
        self.ends(queue, FAILED)
        assert queue.adopt("w", self.entry(clock, "x", 0, {"api": 1}), "from the store", 1e6)
        _, (probe,) = self.patiently(queue, clock)
        assert queue.finish("w", [Finish("x", "from the store", reports=(OK,))]) == set()
        assert self.state(queue) == "probing"
        self.finish(queue, probe, reports=(OK,))
        assert self.state(queue) == "admitting"

    def test_jitter_spreads_when_breakers_close(self, queue: DispatchQueue, clock: Clock) -> None:
        self.load(queue, clock, breaking(failures=1))
        (run_id,) = self.taken(queue, 1)
        queue.finish("w", [Finish(run_id, self.token(run_id), reports=(FAILED,))], jitter=0.5)
        assert self.patiently(queue, clock)[0] == 1.25 * COOLDOWN_MS

    @pytest.mark.parametrize("probing", [False, True])
    def test_a_pool_that_has_no_breaker_any_more_admits_at_once(
        self, queue: DispatchQueue, clock: Clock, *, probing: bool
    ) -> None:
        self.load(queue, clock, breaking())
        self.ends(queue, FAILED, 3)
        probe = self.patiently(queue, clock)[1] if probing else []
        queue.set_pool("api", breaking(failures=9))
        assert self.state(queue) == ("probing" if probing else "tripped")
        queue.set_pool("api", slots(2))
        assert self.state(queue) == "admitting"
        assert len(self.taken(queue)) == 2 - len(probe)
        assert self.finish(queue, *probe, reports=(FAILED,) * probing)
        assert (self.state(queue), len(self.taken(queue))) == ("admitting", len(probe))

    def test_without_a_breaker_failures_hold_nobody(self, queue: DispatchQueue, clock: Clock) -> None:
        self.load(queue, clock, slots(1))
        self.ends(queue, FAILED, 30)
        assert self.state(queue) == "admitting"

    # Throttling

    def test_a_provider_that_said_when_is_left_alone_until_then(self, queue: DispatchQueue, clock: Clock) -> None:
        self.load(queue, clock, slots(8))
        self.ends(queue, Report("api", ok=False, throttled=True, retry_after=7000))
        assert self.state(queue) == "stopped"
        assert self.taken(queue) == []
        lacking = self.shortage(queue, "r59")
        assert (lacking.why, lacking.helped_at) == (Why.STOPPED, clock.ms + 7000)
        assert self.patiently(queue, clock)[0] == 7000

    def test_throttling_takes_in_proportion_and_comes_back_by_itself(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("api", slots(100))
        queue.put([self.entry(clock, f"r{i:03}", 1e9 + i, {"api": 1}, tier=1) for i in range(300)])
        running = self.taken(queue, 100)
        assert self.finish(queue, *running[:9], reports=(OK,))
        assert self.finish(queue, running[9], reports=(Report("api", throttled=True),))
        assert self.pool(queue, "api").factor == pytest.approx(0.9)
        assert self.taken(queue, 100) == []
        self.finish(queue, *running[10:])
        assert len(self.taken(queue, 100)) == 90
        clock.ms += 3000
        assert len(self.taken(queue, 100)) == 5
        clock.ms += 4000
        assert self.pool(queue, "api").factor == 1
        assert len(self.taken(queue, 100)) == 5

    @pytest.mark.parametrize(("tier", "left"), [(1, 16), (2, 14), (3, 12), (4, 10), (5, 8)])
    def test_throttling_takes_from_the_lowest_tiers_first(
        self, queue: DispatchQueue, clock: Clock, tier: int, left: int
    ) -> None:
        queue.set_pool("api", slots(32))
        queue.put([self.entry(clock, f"r{i:03}", 1e9 + i, {"api": 1}, tier=tier) for i in range(99)])
        first = self.taken(queue, 1)
        self.finish(queue, *first, reports=(Report("api", throttled=True),))
        assert self.pool(queue, "api").factor == 0.5
        assert len(self.taken(queue, 32)) == left

    def test_a_throttled_bucket_fills_again_without_a_start(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("api", Limits(Kind.RATE, 10, refill=1.0))
        queue.put([self.entry(clock, f"r{i}", 1e9 + i, {"api": 10}, tier=1) for i in range(2)])
        assert self.taken(queue) == ["r0"]
        self.finish(queue, "r0", reports=(Report("api", throttled=True),))
        waited, came = self.patiently(queue, clock)
        assert came == ["r1"]
        assert 29_000 <= waited <= 32_000

    def test_refusals_of_one_burst_count_once(self, queue: DispatchQueue, clock: Clock) -> None:
        self.load(queue, clock, slots(8))
        running = self.taken(queue)
        self.finish(queue, *running, reports=(Report("api", throttled=True),))
        assert self.pool(queue, "api").factor == 0.5

    def test_slow_answers_throttle_too(self, queue: DispatchQueue, clock: Clock) -> None:
        self.load(queue, clock, slots(8, latency=100))
        self.ends(queue, Report("api", latency=99))
        assert self.pool(queue, "api").factor == 1
        self.ends(queue, Report("api", latency=125))
        assert self.pool(queue, "api").factor == pytest.approx(0.8)

    def test_a_throttled_pool_is_not_a_broken_one(self, queue: DispatchQueue, clock: Clock) -> None:
        self.load(queue, clock, breaking(failures=1))
        self.ends(queue, Report("api", ok=False, throttled=True))
        assert self.state(queue) == "admitting"

    def test_a_report_on_an_unknown_pool_is_ignored(self, queue: DispatchQueue, clock: Clock) -> None:
        self.load(queue, clock, slots(1))
        self.ends(queue, Report("nobody knows", ok=False))
        assert set(queue.stats().pools) == {"api"}
