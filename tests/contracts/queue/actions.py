"""Workers that do not know every action, as in a rolling deployment: what they leave, and who gets it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from duetime.scheduler.dispatch.stuck_runs import stuck_runs
from duetime.scheduler.queue import DispatchQueue, Entry, ThreadUse
from duetime.scheduler.queue.constants import (
    HOLD_CHECK_INTERVAL_MS,
    MAX_CLASSES_PER_TAKE,
    MAX_PREEMPTORS,
    THREADS_KNOWN_MS,
)
from duetime.scheduler.queue.lanes import LANE_CHECK_INTERVAL_MS
from duetime.scheduler.rules.shares import TIER_COUNT

from tests.contracts.queue.case import LEASE_MS, Clock, QueueCase, slots

OLD, NEW = frozenset({"mail"}), frozenset({"mail", "crop"})


class ActionsContract(QueueCase):
    """A run of an action that a worker does not know stays where it is, and is in the way of nothing."""

    def acting(self, clock: Clock, run_id: str, key: float = 0, **more: object) -> Entry:
        """Make a run of the action that its id begins with."""
        return replace(self.entry(clock, run_id, key), action=run_id.partition(".")[0], **more)  # type: ignore[arg-type]  # fields of Entry

    def by(
        self, queue: DispatchQueue, actions: frozenset[str], n: int = 99, threads: ThreadUse | None = None
    ) -> list[str]:
        worker = "-".join(sorted(actions))
        take = queue.take(worker, n, LEASE_MS, actions=actions, threads=threads)
        self.grants |= {grant.run_id: grant for grant in take.grants}
        return list(take.run_ids)

    def test_a_worker_gets_runs_of_its_actions_only(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.acting(clock, "crop.1"), self.acting(clock, "mail.1", 1), self.acting(clock, "crop.2", 2)])
        assert self.by(queue, OLD) == ["mail.1"]
        assert self.by(queue, OLD) == []
        assert queue.stats().waiting[2] == 2

    def test_a_run_goes_at_once_to_a_new_worker_that_knows_its_action_in_its_old_order(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.put([self.acting(clock, f"crop.{n}", n) for n in range(3)])
        for _ in range(3):
            assert self.by(queue, OLD) == []
            clock.ms += 1000
        queue.put([self.acting(clock, "mail.1"), self.acting(clock, "crop.9")])
        assert self.by(queue, NEW) == ["crop.0", "crop.1", "crop.2", "crop.9", "mail.1"]

    def test_a_run_that_a_worker_leaves_calls_for_no_other_take_of_it(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.acting(clock, "crop.1"), self.acting(clock, "crop.2", tier=1)])
        assert queue.take("old", 9, LEASE_MS, actions=OLD).hint is None
        generation = queue.take("old", 9, LEASE_MS, actions=OLD).generation
        assert queue.take("old", 9, LEASE_MS, actions=OLD).generation == generation

    def test_a_run_without_an_action_goes_to_every_worker(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.entry(clock, "any")])
        assert self.by(queue, frozenset()) == ["any"]

    def test_a_worker_takes_by_key_whatever_others_do_not_know(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.acting(clock, f"{('mail', 'crop')[n % 2]}.{n}", n) for n in range(6)])
        assert self.by(queue, OLD, 1) == ["mail.0"]
        assert self.by(queue, NEW, 3) == ["crop.1", "mail.2", "crop.3"]
        assert self.by(queue, NEW, 3) == ["mail.4", "crop.5"]

    def test_tenants_take_turns_over_all_actions_that_a_worker_knows(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.acting(clock, f"mail.{n}", 1e6 + n, tenant="a") for n in range(9)])
        queue.put([self.acting(clock, f"crop.{n}", 2e6 + n, tenant="b") for n in range(9)])
        assert self.by(queue, OLD, 1) == ["mail.0"]
        assert self.by(queue, NEW, 4) == ["crop.0", "mail.1", "crop.1", "mail.2"]
        assert self.by(queue, OLD, 3) == ["mail.3", "mail.4", "mail.5"]
        assert self.by(queue, NEW, 2) == ["crop.2", "mail.6"]

    def test_a_tenant_is_not_kept_waiting_by_its_own_runs_of_an_unknown_action(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.put([self.acting(clock, "crop.1", 1e6, tenant="a"), self.acting(clock, "mail.1", 2e6, tenant="a")])
        queue.put([self.acting(clock, "mail.2", 3e6, tenant="b")])
        assert self.by(queue, OLD, 1) == ["mail.1"]
        assert self.by(queue, OLD, 1) == ["mail.2"]

    def test_a_tier_with_unknown_actions_only_has_no_share(self, queue: DispatchQueue, clock: Clock) -> None:
        late = [self.acting(clock, f"crop.{n}", -1e6 + n, tier=1) for n in range(9)]
        queue.put([*late, *(self.acting(clock, f"mail.{n}", -n, tier=n % 2 + 4) for n in range(40))])
        alone = self.by(queue, OLD, 20)
        queue.begin_rebuild("me")
        queue.put([self.acting(clock, f"mail.{n}", -n, tier=n % 2 + 4) for n in range(40)])
        queue.end_rebuild("me")
        assert alone == self.by(queue, OLD, 20)

    def test_many_runs_of_unknown_actions_are_passed_in_few_takes(self, queue: DispatchQueue, clock: Clock) -> None:
        tenants = [f"t{n:03}" for n in range(2 * MAX_CLASSES_PER_TAKE)]
        queue.put([self.acting(clock, f"crop.{tenant}", tenant=tenant) for tenant in tenants])
        queue.put([self.acting(clock, "mail.1", 1, tenant="z"), self.acting(clock, "mail.2", 2, tier=5)])
        hints = [queue.take("old", 9, LEASE_MS, actions=OLD, nonce=f"n{n}").hint for n in range(2)]
        assert hints == [0, 0]
        assert self.by(queue, OLD) == ["mail.1", "mail.2"]
        assert len(self.by(queue, NEW, 999)) + len(self.by(queue, NEW, 999)) + len(self.by(queue, NEW, 999)) == len(
            tenants
        )

    def test_workers_take_by_key_over_any_number_of_lanes(self, queue: DispatchQueue, clock: Clock) -> None:
        ids = [f"a{n:03}.1" for n in range(100)]
        queue.put([self.acting(clock, run_id, key) for key, run_id in enumerate(ids)])
        assert self.by(queue, OLD) == []
        assert self.by(queue, frozenset({"mail", "a007", "a042"})) == ["a007.1", "a042.1"]
        rest = [run_id for run_id in ids if run_id not in {"a007.1", "a042.1"}]
        assert self.by(queue, frozenset(run_id[:4] for run_id in ids), 50) == rest[:50]
        assert list(queue.take("every", 99, LEASE_MS).run_ids) == rest[50:]

    @pytest.mark.parametrize("known", [False, True])
    def test_a_release_wakes_a_run_of_each_worker(self, queue: DispatchQueue, clock: Clock, known: bool) -> None:
        queue.set_pool("gpu", slots(1))
        queue.put([self.acting(clock, "mail.0", needs={"gpu": 1})])
        assert self.by(queue, OLD) == ["mail.0"]
        queue.put([self.acting(clock, "crop.0")] if known else [])
        assert self.by(queue, OLD) == []
        queue.put(
            [
                self.acting(clock, f"{action}.1", number, needs={"gpu": 1})
                for number, action in enumerate(("crop", "mail"))
            ]
        )
        assert self.by(queue, NEW) == (["crop.0"] if known else [])
        assert self.finish(queue, "mail.0")
        assert self.by(queue, OLD) == ["mail.1"]
        assert self.finish(queue, "mail.1")
        assert self.by(queue, OLD) == []
        assert self.by(queue, NEW) == ["crop.1"]

    def test_pools_are_not_reserved_for_a_run_that_no_worker_knows(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(2))
        queue.put([self.acting(clock, "crop.1", -9, needs={"gpu": 2}), self.acting(clock, "mail.1", needs={"gpu": 1})])
        assert self.by(queue, OLD) == ["mail.1"]

    def test_a_hold_counts_while_a_worker_reports_that_knows_the_action(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        old, new = ThreadUse(4), ThreadUse(8)
        queue.set_pool("gpu", slots(2))
        queue.put([self.acting(clock, "mail.0", -99, needs={"gpu": 1}), self.acting(clock, "crop.0", -50)])
        assert self.by(queue, OLD, threads=old) == ["mail.0"]
        queue.put(
            [self.acting(clock, "crop.1", -9, needs={"gpu": 2}), self.acting(clock, "mail.1", -1, needs={"gpu": 1})]
        )
        assert self.by(queue, NEW, threads=new) == ["crop.0"]
        assert self.by(queue, OLD, threads=old) == []
        assert queue.renew("w", {"mail.0": self.token("mail.0")}, 1e6) == set()
        clock.ms += THREADS_KNOWN_MS + HOLD_CHECK_INTERVAL_MS
        assert self.by(queue, OLD, threads=old) == ["mail.1"], "the worker that knows it has ended"

    def give_hold(self, queue: DispatchQueue, clock: Clock) -> None:
        """Let `crop.1`, which only the new worker knows, wait for both units of a pool, one of which `mail.0` has."""
        queue.set_pool("gpu", slots(2))
        queue.put([self.acting(clock, "mail.0", -99, needs={"gpu": 1})])
        assert self.by(queue, NEW, threads=ThreadUse(8)) == ["mail.0"]
        queue.put(
            [self.acting(clock, "crop.1", -9, needs={"gpu": 2}), self.acting(clock, "mail.1", -1, needs={"gpu": 1})]
        )
        assert self.by(queue, NEW, threads=ThreadUse(8)) == []

    def test_a_run_with_a_hold_keeps_no_pool_when_its_worker_is_gone(self, queue: DispatchQueue, clock: Clock) -> None:
        self.give_hold(queue, clock)
        assert self.finish(queue, "mail.0")
        hint = queue.take("old", 1, LEASE_MS, actions=OLD, threads=ThreadUse(4)).hint
        assert hint is not None
        assert hint <= HOLD_CHECK_INTERVAL_MS / 1000
        clock.ms += THREADS_KNOWN_MS + 1
        assert self.by(queue, OLD, threads=ThreadUse(4)) == ["mail.1"]

    def test_a_run_with_a_hold_keeps_no_free_unit_when_its_worker_is_gone_before_another_met_it(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        self.give_hold(queue, clock)
        assert self.by(queue, OLD, threads=ThreadUse(4)) == []
        clock.ms += THREADS_KNOWN_MS
        assert self.by(queue, OLD, threads=ThreadUse(4)) == [], "its worker may still come"
        clock.ms += HOLD_CHECK_INTERVAL_MS
        assert self.by(queue, OLD, threads=ThreadUse(4)) == ["mail.1"], "one unit was free all the time"

    def test_no_worker_makes_room_for_a_run_that_it_does_not_know(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put(
            [
                self.acting(clock, "crop.1", tier=1),
                self.acting(clock, "mail.1", tier=2),
                self.acting(clock, "crop.2", 1),
            ]
        )
        assert queue.assign_preemptors("old", 9, (1, TIER_COUNT), 0, actions=OLD) == (2,)
        assert self.by(queue, OLD) == ["mail.1"]
        assert queue.assign_preemptors("old", 9, (1, TIER_COUNT), 0, actions=OLD) == ()
        assert queue.assign_preemptors("new", 9, (1, TIER_COUNT), 1, actions=NEW) == (1, 3)

    def test_a_worker_makes_room_for_its_urgent_run_behind_many_that_it_does_not_know(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        tenants = [f"t{n:02}" for n in range(2 * MAX_PREEMPTORS)]
        queue.put([self.acting(clock, f"crop.{tenant}", tier=1, tenant=tenant) for tenant in tenants])
        queue.put([self.acting(clock, "mail.1", 1, tier=1)])
        assert queue.assign_preemptors("old", 9, (1, TIER_COUNT), 1, actions=OLD) == (1,)
        assert self.by(queue, NEW) == [*(f"crop.{tenant}" for tenant in tenants), "mail.1"]

    def test_room_is_made_for_runs_that_an_unknown_one_kept_out_of_a_pool(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.set_pool("gpu", slots(1))
        queue.put([self.acting(clock, "mail.0", needs={"gpu": 1})])
        assert self.by(queue, OLD) == ["mail.0"]
        queue.put([self.acting(clock, f"{action}.1", tier=1, needs={"gpu": 1}) for action in ("crop", "mail")])
        assert self.by(queue, NEW) == []
        assert self.finish(queue, "mail.0")
        assert queue.assign_preemptors("old", 9, (1, TIER_COUNT), 1, actions=OLD) == (1,)
        assert self.by(queue, OLD) == ["mail.1"]

    def test_explain_counts_the_threads_of_workers_that_know_the_action(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.put([self.acting(clock, "crop.1")])
        self.by(queue, OLD, 0, ThreadUse(4))
        found = queue.explain("crop.1")
        assert found is not None
        assert (found.status, found.threads) == ("waiting", None)
        self.by(queue, NEW, 0, ThreadUse(8))
        found = queue.explain("crop.1")
        assert found is not None
        assert found.threads == ThreadUse(8)

    def test_runs_behind_a_pool_are_not_stuck_while_no_worker_knows_their_action(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.set_pool("gpu", slots(1))
        queue.put([self.acting(clock, "mail.0", needs={"gpu": 1})])
        assert self.by(queue, NEW, threads=ThreadUse(8)) == ["mail.0"]
        crops = [self.acting(clock, f"crop.{n}", 1e6 + n, needs={"gpu": 1}, tenant=f"t{n}") for n in range(4)]
        queue.put(crops)
        assert self.by(queue, NEW, threads=ThreadUse(8)) == []
        clock.ms += THREADS_KNOWN_MS + 1
        assert self.finish(queue, "mail.0")
        assert self.by(queue, OLD, threads=ThreadUse(4)) == []
        found = [queue.explain(crop.run_id) for crop in crops]
        assert [(each.status, each.shortage, each.threads) for each in found if each is not None] == [
            *[("waiting", None, None)] * 2,
            *[("parked", None, None)] * 2,
        ]
        assert stuck_runs(queue, crops) == []
        self.by(queue, NEW, 0, ThreadUse(8))
        assert stuck_runs(queue, crops) == crops

    def test_a_run_that_is_given_back_or_adopted_keeps_its_action(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.acting(clock, "crop.1")])
        assert self.by(queue, NEW) == ["crop.1"]
        assert self.give_back(queue, "crop.1")
        assert self.by(queue, OLD) == []
        assert self.by(queue, NEW) == ["crop.1"]

    def test_a_lane_that_nobody_needs_any_more_goes_and_comes_again(self, queue: DispatchQueue, clock: Clock) -> None:
        for n in range(3):
            queue.put([self.acting(clock, f"crop.{n}"), self.acting(clock, f"mail.{n}", 1)])
            assert self.by(queue, OLD) == [f"mail.{n}"]
            assert self.by(queue, NEW) == [f"crop.{n}"]
            self.finish(queue, f"mail.{n}", f"crop.{n}")
            clock.ms += LANE_CHECK_INTERVAL_MS + 1
            assert self.by(queue, NEW) == []

    def test_the_lane_of_an_action_that_is_gone_goes_while_no_worker_knows_it(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        crops = [self.acting(clock, f"crop.{n}", tenant=f"t{n:03}") for n in range(MAX_CLASSES_PER_TAKE)]
        for waiting_ms, looks_again in ((0, True), (LANE_CHECK_INTERVAL_MS / 2, False), (LANE_CHECK_INTERVAL_MS, True)):
            clock.ms += waiting_ms + 1
            assert self.by(queue, OLD) == []
            queue.put(crops)
            hint = queue.take("old", 9, LEASE_MS, actions=OLD).hint
            assert (hint == 0) is looks_again, "only what is not in a lane is passed class by class"
            for crop in crops:
                queue.cancel(crop.run_id)
