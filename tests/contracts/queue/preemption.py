"""Less urgent runs are requested to yield, so that a late run gets the units of pools that they hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from duetime.scheduler.queue import DispatchQueue, Entry, Explanation, Kind, Limits, Report, ThreadUse, Why
from duetime.scheduler.queue.constants import PROMISE_MS, WILLING_KNOWN_MS

from tests.contracts.queue.case import LEASE_MS, Clock, QueueCase, slots

LONG_MS = 60_000.0
NOTICE_MS = 1500.0


class PreemptionContract(QueueCase):
    """The runs that yield over a pool, and who gets what they release."""

    def hold(self, queue: DispatchQueue, clock: Clock, run_id: str, needs: Mapping[str, int], *, tier: int = 5) -> None:
        """Lease a run that could wait for hours."""
        queue.put([self.entry(clock, run_id, 1e7, needs, tier=tier)])
        assert self.taken(queue, lease=LONG_MS) == [run_id]

    def park(self, queue: DispatchQueue, *entries: Entry) -> None:
        queue.put(entries)
        assert self.taken(queue) == []

    def urgent(self, clock: Clock, run_id: str, needs: Mapping[str, int], *, tier: int = 1) -> Entry:
        """Return a run that is late within the notice."""
        return self.entry(clock, run_id, NOTICE_MS, needs, tier=tier)

    def asked(self, queue: DispatchQueue, *willing: str) -> list[str]:
        return sorted(queue.runs_to_preempt(willing, NOTICE_MS))

    def found(self, queue: DispatchQueue, run_id: str) -> Explanation:
        found = queue.explain(run_id)
        assert found is not None
        return found

    # Which runs are requested

    def test_a_less_urgent_run_releases_the_pool_for_a_late_one(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(1))
        self.hold(queue, clock, "long", {"gpu": 1})
        assert self.asked(queue, "long") == []
        self.park(queue, self.urgent(clock, "late", {"gpu": 1}))
        assert self.asked(queue, "long") == ["long"]
        assert self.finish(queue, "long")
        assert self.taken(queue) == ["late"]

    def test_a_run_that_may_wait_longer_than_the_notice_makes_no_request(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.set_pool("gpu", slots(1))
        self.hold(queue, clock, "long", {"gpu": 1})
        self.park(queue, self.entry(clock, "later", NOTICE_MS + 1, {"gpu": 1}, tier=1))
        assert self.asked(queue, "long") == []
        clock.ms += 1
        assert self.asked(queue, "long") == ["long"]

    @pytest.mark.parametrize("tier", [1, 2])
    def test_a_run_of_the_same_or_a_higher_tier_is_never_requested(
        self, queue: DispatchQueue, clock: Clock, tier: int
    ) -> None:
        queue.set_pool("gpu", slots(1))
        self.hold(queue, clock, "long", {"gpu": 1}, tier=tier)
        self.park(queue, self.urgent(clock, "late", {"gpu": 1}, tier=2))
        assert self.asked(queue, "long") == []

    def test_nobody_is_requested_while_the_willing_runs_hold_too_little(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.set_pool("gpu", slots(3))
        self.hold(queue, clock, "one", {"gpu": 1})
        self.hold(queue, clock, "two", {"gpu": 2})
        self.park(queue, self.urgent(clock, "late", {"gpu": 3}))
        assert self.asked(queue, "one") == []
        assert self.asked(queue, "two") == ["two"], "the other one was willing a moment ago"
        assert self.asked(queue, "one") == ["one"], "its own worker learns of it with its next look"
        assert self.asked(queue, "one", "two") == ["one", "two"], "and again, when it did not get the answer"

    def test_a_run_last_willing_long_ago_does_not_count(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(3))
        self.hold(queue, clock, "one", {"gpu": 1})
        self.hold(queue, clock, "two", {"gpu": 2})
        self.park(queue, self.urgent(clock, "late", {"gpu": 3}))
        assert self.asked(queue, "one") == []
        clock.ms += WILLING_KNOWN_MS + 1
        assert self.asked(queue, "two") == []
        clock.ms += WILLING_KNOWN_MS
        assert self.asked(queue, "one") == ["one"], "exactly as old as may be"

    def test_the_fewest_that_suffice_are_requested_the_least_urgent_and_the_last_of_equals(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.set_pool("gpu", slots(9))
        runs = {"one": (1, 5), "low": (2, 4), "older": (2, 5), "newer": (2, 5), "all": (2, 2)}
        for run_id, (units, tier) in runs.items():
            self.hold(queue, clock, run_id, {"gpu": units}, tier=tier)
            clock.ms += 1
        self.park(queue, self.urgent(clock, "late", {"gpu": 2}))
        assert self.asked(queue, *runs) == ["newer"]

    def test_free_units_are_not_requested(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(4))
        self.hold(queue, clock, "one", {"gpu": 1})
        self.hold(queue, clock, "two", {"gpu": 2})
        self.park(queue, self.urgent(clock, "late", {"gpu": 2}))
        assert self.asked(queue, "one", "two") == ["one"]

    def test_a_run_that_lacks_two_pools_gets_both_or_nothing(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("cpu", slots(1))
        queue.set_pool("gpu", slots(1))
        self.hold(queue, clock, "c", {"cpu": 1})
        self.hold(queue, clock, "g", {"gpu": 1})
        self.park(queue, self.urgent(clock, "late", {"cpu": 1, "gpu": 1}))
        assert self.asked(queue, "c") == []
        clock.ms += WILLING_KNOWN_MS + 1
        assert self.asked(queue, "c", "g") == ["c", "g"]
        self.park(queue, self.urgent(clock, "other", {"cpu": 1}))
        assert self.finish(queue, "c")
        assert self.taken(queue) == [], "it is kept until the other pool is there as well"
        assert self.finish(queue, "g")
        assert self.taken(queue) == ["late"]

    @pytest.mark.parametrize(
        "limits", [Limits(Kind.RATE, 1), Limits(Kind.RATE, 1, window=1000, window_units=1), Limits(Kind.BUDGET, 1)]
    )
    def test_units_that_do_not_come_back_are_not_requested(
        self, queue: DispatchQueue, clock: Clock, limits: Limits
    ) -> None:
        queue.set_pool("api", limits)
        self.hold(queue, clock, "long", {"api": 1})
        self.park(queue, self.urgent(clock, "late", {"api": 1}))
        assert self.asked(queue, "long") == []

    def test_nothing_is_requested_while_a_rate_would_hold_the_run_anyway(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.set_pool("gpu", slots(1))
        queue.set_pool("rate", Limits(Kind.RATE, 1))
        self.hold(queue, clock, "long", {"gpu": 1, "rate": 1})
        self.park(queue, self.urgent(clock, "late", {"gpu": 1, "rate": 1}))
        assert self.asked(queue, "long") == []

    def test_nothing_is_requested_of_a_pool_whose_breaker_is_open_or_probing(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.set_pool("gpu", slots(2, failures=1, cooldown=500))
        self.hold(queue, clock, "long", {"gpu": 1})
        self.hold(queue, clock, "fails", {"gpu": 1})
        self.finish(queue, "fails", reports=(Report("gpu", ok=False),))
        self.park(queue, self.urgent(clock, "late", {"gpu": 2}))
        assert self.asked(queue, "long") == []
        clock.ms += 501
        self.hold(queue, clock, "probe", {"gpu": 1}, tier=2)
        assert self.asked(queue, "long", "probe") == []

    def test_nothing_is_requested_for_more_than_the_pool_ever_has(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(1))
        self.hold(queue, clock, "long", {"gpu": 1})
        self.park(queue, self.urgent(clock, "late", {"gpu": 2}), self.urgent(clock, "other", {"new": 1}))
        assert self.asked(queue, "long") == []

    def test_nobody_is_requested_while_the_queue_is_rebuilt(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(1))
        self.hold(queue, clock, "long", {"gpu": 1})
        self.park(queue, self.urgent(clock, "late", {"gpu": 1}))
        assert queue.begin_rebuild("me")
        assert self.asked(queue, "long") == []

    def test_a_run_that_cannot_be_helped_does_not_keep_others_from_it(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(1))
        queue.set_pool("rate", Limits(Kind.RATE, 1))
        self.hold(queue, clock, "spends", {"rate": 1})
        self.hold(queue, clock, "long", {"gpu": 1})
        self.park(
            queue,
            self.entry(clock, "first", NOTICE_MS - 1, {"gpu": 1, "rate": 1}, tier=1),
            self.urgent(clock, "late", {"gpu": 1}),
        )
        assert self.asked(queue, "long") == ["long"]
        assert self.finish(queue, "long")
        assert self.taken(queue) == ["late"]

    # Who gets the units

    def test_released_units_are_kept_for_the_run_that_waits_for_them(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(1))
        self.hold(queue, clock, "long", {"gpu": 1})
        self.park(
            queue,
            self.entry(clock, "overdue", -9e6, {"gpu": 1}, tier=4),
            replace(self.entry(clock, "early", -9e5, {"gpu": 1}, tier=2), tenant="globex"),
            self.urgent(clock, "late", {"gpu": 1}, tier=2),
        )
        queue.cancel("early")
        assert self.asked(queue, "long") == ["long"]
        queue.put([replace(self.entry(clock, "early", -9e5, {"gpu": 1}, tier=1), tenant="globex")])
        assert self.taken(queue) == []
        assert self.finish(queue, "long")
        assert self.taken(queue, 1) == ["late"]
        assert self.taken(queue) == []
        assert self.finish(queue, "late")
        assert self.taken(queue, 1) == ["overdue"], "it has a hold again"

    def test_units_that_nobody_took_in_time_are_free_for_all(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(2))
        self.hold(queue, clock, "one", {"gpu": 1})
        self.hold(queue, clock, "two", {"gpu": 1})
        self.park(queue, self.urgent(clock, "late", {"gpu": 2}))
        assert self.asked(queue, "one", "two") == ["one", "two"]
        assert self.finish(queue, "one")
        self.park(queue, self.entry(clock, "small", 1e6, {"gpu": 1}))
        assert self.found(queue, "small").shortage is not None
        clock.ms += PROMISE_MS
        queue.rescore("late", clock.ms + 1e6)
        assert self.taken(queue) == ["small"]

    def test_units_are_free_at_the_end_of_a_promise_though_an_earlier_timer_has_fired(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.set_pool("gpu", slots(2, steps=((clock.ms + 1000, 2.0),)))
        self.hold(queue, clock, "long", {"gpu": 1})
        self.hold(queue, clock, "longer", {"gpu": 1})
        self.park(queue, self.urgent(clock, "late", {"gpu": 2}, tier=2))
        assert self.asked(queue, "long", "longer") == ["long", "longer"]
        clock.ms += 1000
        assert self.taken(queue) == []
        self.finish(queue, "long")
        queue.put([self.urgent(clock, "small", {"gpu": 1})])
        assert self.patiently(queue, clock) == (PROMISE_MS - 1000, ["small"])

    def test_a_run_that_is_cancelled_frees_what_was_kept_for_it(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(1))
        self.hold(queue, clock, "long", {"gpu": 1})
        self.park(queue, self.urgent(clock, "late", {"gpu": 1}))
        assert self.asked(queue, "long") == ["long"]
        self.park(queue, self.entry(clock, "other", 1e6, {"gpu": 1}))
        queue.cancel("late")
        assert self.finish(queue, "long")
        assert self.taken(queue) == ["other"]

    @pytest.mark.parametrize("change", ["cancel", "rescore", "put"])
    @pytest.mark.parametrize("changed", ["late", "next"])
    def test_a_change_of_one_late_run_leaves_the_units_to_the_others_of_its_class(
        self, queue: DispatchQueue, clock: Clock, change: str, changed: str
    ) -> None:
        queue.set_pool("gpu", slots(1))
        self.hold(queue, clock, "long", {"gpu": 1})
        self.park(
            queue,
            self.entry(clock, "overdue", -9e6, {"gpu": 1}, tier=5),
            self.urgent(clock, "late", {"gpu": 1}),
            self.entry(clock, "next", NOTICE_MS - 1, {"gpu": 1}, tier=1),
        )
        assert self.asked(queue, "long") == ["long"]
        if change == "cancel":
            queue.cancel(changed)
        elif change == "rescore":
            queue.rescore(changed, clock.ms + 1e6)
        else:
            queue.put([self.entry(clock, changed, 1e6, {"cpu": 1}, tier=1)])
        assert self.finish(queue, "long")
        [other] = {"late", "next"} - {changed}
        assert self.taken(queue, 1) == [other]

    def test_units_are_not_kept_for_runs_that_are_not_late(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(1))
        self.hold(queue, clock, "long", {"gpu": 1})
        self.park(
            queue,
            self.entry(clock, "overdue", -9e6, {"gpu": 1}, tier=5),
            self.urgent(clock, "late", {"gpu": 1}),
            self.entry(clock, "later", NOTICE_MS + 1, {"gpu": 1}, tier=1),
        )
        assert self.asked(queue, "long") == ["long"]
        queue.cancel("late")
        assert self.finish(queue, "long")
        assert self.taken(queue, 1) == ["overdue"]

    def test_units_of_a_pool_that_was_made_on_use_are_kept_as_well(self, queue: DispatchQueue, clock: Clock) -> None:
        self.hold(queue, clock, "long", {"key:7": 1})
        self.park(queue, self.urgent(clock, "late", {"key:7": 1}))
        assert self.asked(queue, "long") == ["long"]
        queue.put([self.entry(clock, "overdue", -9e6, {"key:7": 1}, tier=5)])
        assert self.finish(queue, "long")
        assert self.taken(queue, 1) == ["late"]
        assert self.finish(queue, "late")
        assert self.taken(queue, 1) == ["overdue"]
        assert self.finish(queue, "overdue")
        assert "key:7" not in queue.stats().pools, "and it goes when nothing uses it"

    def test_a_holder_that_ends_by_itself_leaves_nothing_behind(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(1))
        self.hold(queue, clock, "long", {"gpu": 1})
        self.park(queue, self.urgent(clock, "late", {"gpu": 1}))
        assert self.finish(queue, "long")
        assert self.asked(queue, "long") == []
        assert self.taken(queue) == ["late"]

    # Once, and again

    def test_a_pool_is_not_requested_twice_for_the_same_run(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(2))
        self.hold(queue, clock, "one", {"gpu": 1})
        self.hold(queue, clock, "two", {"gpu": 1})
        self.park(queue, self.urgent(clock, "late", {"gpu": 1}))
        [first] = self.asked(queue, "one", "two")
        [other] = {"one", "two"} - {first}
        assert self.asked(queue, other) == []
        clock.ms += PROMISE_MS - 1
        assert self.asked(queue, other) == []
        clock.ms += 1
        assert self.asked(queue, other) == [other], "nothing came of the first request"

    def test_units_that_are_on_their_way_are_not_requested_again_for_another_run(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.set_pool("gpu", slots(2))
        self.hold(queue, clock, "one", {"gpu": 1})
        self.hold(queue, clock, "two", {"gpu": 1})
        self.park(queue, self.urgent(clock, "late", {"gpu": 1}))
        [first] = self.asked(queue, "one", "two")
        [other] = {"one", "two"} - {first}
        queue.cancel("late")
        self.park(queue, self.urgent(clock, "next", {"gpu": 1}, tier=2))
        assert self.asked(queue, other) == []
        assert self.finish(queue, first)
        assert self.taken(queue) == ["next"]

    def test_the_lease_of_a_worker_that_died_ends_and_its_units_go_to_the_late_run(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.set_pool("gpu", slots(1))
        queue.put([self.entry(clock, "long", 1e7, {"gpu": 1}, tier=5)])
        assert self.taken(queue, lease=LEASE_MS) == ["long"]
        self.park(queue, self.urgent(clock, "late", {"gpu": 1}))
        assert self.asked(queue, "long") == ["long"]
        clock.ms += LEASE_MS
        assert queue.reap() == ["long"]
        assert self.taken(queue) == ["late"]

    def test_a_later_lease_of_a_run_is_another_turn(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(1))
        self.hold(queue, clock, "long", {"gpu": 1})
        self.park(queue, self.urgent(clock, "late", {"gpu": 1}))
        assert self.asked(queue, "long") == ["long"]
        assert self.finish(queue, "long")
        assert self.taken(queue) == ["late"]
        assert self.finish(queue, "late")
        self.hold(queue, clock, "long", {"gpu": 1})
        assert self.asked(queue, "long") == []

    # What is told, and threads

    def test_explain_says_that_units_were_requested(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(1))
        self.hold(queue, clock, "long", {"gpu": 1})
        self.park(queue, self.urgent(clock, "late", {"gpu": 1}), self.entry(clock, "other", 1e6, {"gpu": 1}))
        short = self.found(queue, "late").shortage
        assert short is not None
        assert not short.requested
        self.asked(queue, "long")
        assert self.found(queue, "late").shortage == replace(short, requested=True)
        self.give_back(queue, "long", delay=10)
        short = self.found(queue, "other").shortage
        assert short is not None
        assert (short.why, short.held_for, short.requested) == (Why.HELD, "late", False)

    def test_a_run_that_lacks_a_pool_waits_for_that_and_not_for_a_thread(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.set_pool("gpu", slots(1))
        self.hold(queue, clock, "long", {"gpu": 1})
        queue.put([self.urgent(clock, "late", {"gpu": 1}), self.urgent(clock, "free", {}, tier=2)])
        assert queue.assign_preemptors("w", 9, (1, 5), NOTICE_MS, threads=ThreadUse(1, 1)) == (2,)
        assert self.found(queue, "late").status == "parked"
        assert self.asked(queue, "long") == ["long"]
