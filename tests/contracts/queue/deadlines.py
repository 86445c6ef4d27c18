"""Deadlines in a `DispatchQueue` when several tenants have work in one tier: who goes out of turn, and how often."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count

import pytest
from duetime.scheduler.queue import DispatchQueue, Entry
from duetime.scheduler.rules.policies.decision import Contender, replay_decision
from duetime.scheduler.rules.shares import TIER_COUNT, Shares

from tests.contracts.queue.case import LEASE_MS, Clock, QueueCase, slots

TIERS = range(1, TIER_COUNT + 1)
PATIENCE_MS = {1: 1e3, 2: 30e3, 3: 300e3, 4: 1.8e6, 5: 14.4e6}


class DeadlinesContract(QueueCase):
    """A tenant starts at most one run out of turn before another that waits, whatever deadlines it puts on its runs."""

    def due(
        self,
        clock: Clock,
        run_id: str,
        key: float,
        *,
        tier: int = 3,
        by_deadline: bool = True,
        needs: Mapping[str, int] | None = None,
        action: str = "",
    ) -> Entry:
        """Make a run of the tenant that its id begins with."""
        entry = self.entry(clock, run_id, key, needs, tier=tier)
        return replace(entry, tenant=run_id.partition(".")[0], by_deadline=by_deadline, action=action)

    def patient(self, clock: Clock, run_id: str, *, tier: int = 3, key: float | None = None) -> Entry:
        """Make a run without a deadline."""
        return self.due(clock, run_id, PATIENCE_MS[tier] if key is None else key, tier=tier, by_deadline=False)

    def started(
        self, queue: DispatchQueue, clock: Clock, n: int, length_ms: float = 200, then: Callable[[], object] = list
    ) -> str:
        """Run one after the other on one thread, and return the tenants in order; `then` is called after each."""
        order = ""
        for _ in range(n):
            (run_id,) = self.taken(queue, 1)
            order += run_id[0]
            clock.ms += length_ms
            assert self.finish(queue, run_id)
            then()
        return order

    def fed(self, queue: DispatchQueue, clock: Clock, tenant: str, tier: int, ahead_ms: float) -> Callable[[], object]:
        """Return what puts one more run of a tenant, with its deadline so far ahead."""
        number = count()
        return lambda: queue.put([self.due(clock, f"{tenant}.{next(number)}", ahead_ms, tier=tier)])

    @pytest.mark.parametrize("tier", TIERS)
    def test_a_backlog_with_deadlines_delays_another_tenant_by_two_runs(
        self, queue: DispatchQueue, clock: Clock, tier: int
    ) -> None:
        ahead_ms = 0.8 * PATIENCE_MS[tier]
        queue.put([self.due(clock, f"a.{n:03}", ahead_ms - 200, tier=tier) for n in range(100)])
        queue.put([self.patient(clock, "b", tier=tier)])
        assert self.started(queue, clock, 4, 1) == "aaba"

    @pytest.mark.parametrize("tier", TIERS)
    def test_a_deadline_on_each_new_run_delays_another_tenant_by_two_runs(
        self, queue: DispatchQueue, clock: Clock, tier: int
    ) -> None:
        feed = self.fed(queue, clock, "a", tier, 0.7 * PATIENCE_MS[tier])
        feed()
        assert self.started(queue, clock, 5, 1, feed) == "aaaaa"
        queue.put([self.patient(clock, f"b.{n}", tier=tier) for n in range(3)])
        assert self.started(queue, clock, 6, 1, feed) == "aabaab"

    def test_each_of_several_tenants_with_deadlines_passes_one_that_waits_twice_at_most(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        for tenant in "acd":
            queue.put([self.due(clock, f"{tenant}.{n:02}", 240_000) for n in range(50)])
        queue.put([self.patient(clock, "b.1")])
        order = self.started(queue, clock, 60)
        before = order.partition("b")[0]
        assert sorted(before) == ["a", "a", "c", "c", "d", "d"], order
        assert all({*order[n : n + 5]} == {*"acd"} for n in range(7, 55)), order

    def test_the_bound_holds_when_one_take_starts_many(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.due(clock, f"a.{n:03}", 240_000) for n in range(50)])
        queue.put([self.patient(clock, f"b.{n}") for n in range(3)])
        assert [run_id[0] for run_id in self.taken(queue, 12)] == [*"aabaabaabaaa"]

    def test_the_bound_holds_behind_a_pool(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(1))
        gpu = {"gpu": 1}
        queue.put([self.due(clock, f"a.{n:03}", 240_000, needs=gpu) for n in range(50)])
        queue.put([self.due(clock, "b.1", 300_000, by_deadline=False, needs=gpu)])
        assert "b" in self.started(queue, clock, 3)

    def test_turns_for_a_thread_give_no_right_to_pass_another_tenant_behind_a_pool(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.set_pool("gpu", slots(1))
        gpu = {"gpu": 1}
        queue.put([self.due(clock, f"a.{n:03}", 240_000, needs=gpu) for n in range(50)])
        queue.put([self.due(clock, f"a.cpu{n:03}", 250_000) for n in range(50)])
        running = self.taken(queue, 1)
        queue.put([self.due(clock, "b.1", 300_000, by_deadline=False, needs=gpu)])
        order = list[str]()
        for _ in range(3):
            self.taken(queue, 2)  # turns without a competitor, while b waits for the pool
            self.finish(queue, *running)
            clock.ms += 200
            running = [run_id for run_id in self.taken(queue, 2) if "cpu" not in run_id]
            order += running
        assert "b.1" in order[:2], order

    def test_turns_for_another_action_give_no_right_to_pass_another_tenant(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.put([self.due(clock, f"a.{n:03}", 240_000, action="mail") for n in range(50)])
        queue.put([self.due(clock, f"a.crop{n:03}", 240_000, action="crop") for n in range(50)])
        queue.put([self.due(clock, "b.1", 300_000, by_deadline=False, action="mail")])
        order = list[str]()
        for _ in range(3):
            queue.take("crop", 1, LEASE_MS, actions=frozenset({"crop"}))
            clock.ms += 200
            order += queue.take("mail", 1, LEASE_MS, actions=frozenset({"mail"})).run_ids
        assert "b.1" in order, order

    def test_the_deadline_of_a_light_tenant_goes_before_a_backlog_without_deadlines(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        for tenant in "ac":
            queue.put([self.patient(clock, f"{tenant}.{n:02}") for n in range(50)])
        assert self.started(queue, clock, 4) == "acac"
        order = ""
        for number in range(4):
            queue.put([self.due(clock, f"b.{number}", 10_000)])
            order += self.started(queue, clock, 3)
        assert order == "bacbacbacbac"

    def test_a_tenant_that_has_used_its_start_out_of_turn_does_not_keep_others_from_theirs(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        for tenant in "pqrs":
            queue.put([self.patient(clock, f"{tenant}.{n:02}") for n in range(50)])
        queue.put([self.due(clock, f"a.{n:02}", 10_000) for n in range(50)])
        assert self.started(queue, clock, 1) == "a"
        queue.put([self.due(clock, "b.1", 20_000)])
        assert self.started(queue, clock, 5) == "bpqrs"

    def test_nor_behind_a_pool(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.set_pool("gpu", slots(1))
        gpu = {"gpu": 1}
        for tenant in "pqrs":
            queue.put([self.due(clock, f"{tenant}.{n:02}", 300_000, by_deadline=False, needs=gpu) for n in range(50)])
        queue.put([self.due(clock, f"a.{n:02}", 10_000, needs=gpu) for n in range(50)])
        assert self.taken(queue, 1) == ["a.00"]
        queue.put([self.due(clock, "b.1", 20_000, needs=gpu)])
        assert self.taken(queue) == []
        self.finish(queue, "a.00")
        assert self.started(queue, clock, 5) == "bpqrs"

    def test_a_single_tenant_has_the_order_of_its_deadlines(self, queue: DispatchQueue, clock: Clock) -> None:
        keys = [(n * 7919) % 1000 for n in range(40)]
        queue.put([self.due(clock, f"a.{key:04}", 1000 + key) for key in keys])
        queue.put([self.patient(clock, f"a.{key + 500:04}", key=1500 + key) for key in keys if key + 500 not in keys])
        one_by_one = [run_id for _ in range(20) for run_id in self.taken(queue, 1)]
        rest = self.taken(queue, 99)
        assert one_by_one + rest == sorted(one_by_one + rest)

    def test_a_run_that_waits_for_the_turn_of_its_tenant_is_explained(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.due(clock, f"a.{n}", 10_000 + n) for n in range(5)])
        queue.put([self.patient(clock, "c.1"), self.patient(clock, "d.1"), self.due(clock, "b.1", 20_000)])

        def others_first() -> dict[str, bool]:
            found = {run_id: queue.explain(run_id) for run_id in ("a.2", "b.1", "c.1", "d.1")}
            return {run_id: each.others_first for run_id, each in found.items() if each is not None}

        assert self.taken(queue, 1) == ["a.0"]
        assert others_first() == {"a.2": False, "b.1": False, "c.1": False, "d.1": True}
        assert self.taken(queue, 1) == ["a.1"]
        assert others_first() == {"a.2": True, "b.1": False, "c.1": False, "d.1": True}
        clock.ms += 20_001
        assert others_first() == {"a.2": True, "b.1": True, "c.1": False, "d.1": True}

    def test_a_start_out_of_turn_is_recorded_and_replayed(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.due(clock, f"a.{n}", 10_000 + n) for n in range(5)])
        queue.put([self.patient(clock, "c.1")])
        queue.put([self.due(clock, "b.1", 20_000)])
        looks = queue.take("w", 6, LEASE_MS, record=True).looks
        heads = [look.heads[2] or Contender("none", 0) for look in looks]
        seen = [
            (look.run.run_id, look.out_of_turn, head.run_id, head.by_deadline)
            for look, head in zip(looks, heads, strict=True)
        ]
        assert seen == [
            ("a.0", False, "a.0", True),
            ("a.1", True, "a.1", True),
            ("b.1", True, "a.2", False),
            ("c.1", False, "a.2", False),
            ("a.2", False, "a.2", True),
            ("a.3", False, "a.3", True),
        ]
        assert [replay_decision(look, Shares()) for look in looks] == [(3, look.run) for look in looks]
