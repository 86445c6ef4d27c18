"""Turns in a `DispatchQueue` when several tenants have work in one tier."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle

import pytest
from duetime.scheduler.queue import DispatchQueue, Entry

from tests.contracts.queue.case import Clock, QueueCase, slots

FRESH_KEY, OVERDUE_KEY = 1e6, -1e6


class TenantsContract(QueueCase):
    """A backlog of one tenant delays another by one run, behind pools too; deadlines that can be kept go first."""

    def run(self, clock: Clock, run_id: str, key: float = FRESH_KEY, **more: object) -> Entry:
        """Make a run of the tenant that its id begins with."""
        return replace(self.entry(clock, run_id, key), tenant=run_id.partition(".")[0], **more)  # type: ignore[arg-type]  # fields of Entry

    def backlog(self, queue: DispatchQueue, clock: Clock, tenant: str, n: int = 100, key: float = FRESH_KEY) -> None:
        queue.put([self.run(clock, f"{tenant}.{number:03}", key + number) for number in range(n)])

    def tenants(self, queue: DispatchQueue, turns: int, n: int = 1) -> list[str]:
        return [run_id.partition(".")[0] for _ in range(turns) for run_id in self.taken(queue, n)]

    @pytest.mark.parametrize("key", [FRESH_KEY, OVERDUE_KEY])
    def test_a_backlog_delays_another_tenant_by_one_run(self, queue: DispatchQueue, clock: Clock, key: float) -> None:
        self.backlog(queue, clock, "a", key=key)
        assert self.tenants(queue, 3) == ["a"] * 3
        clock.ms += 1000
        queue.put([self.run(clock, "b.1", 5e6)])
        assert "b" in self.tenants(queue, 2)
        assert self.tenants(queue, 3) == ["a"] * 3

    def test_tenants_with_backlogs_alternate_within_one_take_as_well(self, queue: DispatchQueue, clock: Clock) -> None:
        self.backlog(queue, clock, "a")
        self.backlog(queue, clock, "b", key=2 * FRESH_KEY)
        self.backlog(queue, clock, "c", key=3 * FRESH_KEY)
        assert self.tenants(queue, 2, 7) == (["a", "b", "c"] * 5)[:14]

    def test_a_tenant_that_puts_its_next_run_after_each_does_not_pass_one_that_waits(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        self.backlog(queue, clock, "a")
        got = []
        for number in range(6):
            clock.ms += 10
            queue.put([self.run(clock, f"b.{number}", OVERDUE_KEY)])
            got += self.tenants(queue, 1)
        assert got == ["a", "b"] * 3

    @pytest.mark.parametrize("key", [FRESH_KEY, OVERDUE_KEY])
    def test_a_backlog_behind_a_pool_delays_another_tenant_by_one_run(
        self, queue: DispatchQueue, clock: Clock, key: float
    ) -> None:
        queue.set_pool("gpu", slots(1))
        queue.put([self.run(clock, f"a.{number:03}", key + number, needs={"gpu": 1}) for number in range(50)])
        first = self.taken(queue)
        queue.put([self.run(clock, "b.1", 5e6, needs={"gpu": 1})])
        assert self.taken(queue) == []
        got = []
        for _ in range(3):
            self.finish(queue, *first)
            clock.ms += 100
            first = self.taken(queue)
            got += first
        assert "b.1" in got[:2], got
        assert len(got) == 3

    def test_a_backlog_of_many_sets_of_needs_delays_another_tenant_by_one_run(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.set_pool("gpu", slots(1))
        queue.put(
            [
                self.run(clock, f"a.{number:03}", OVERDUE_KEY, needs={"gpu": 1, f"key:{number}": 1})
                for number in range(40)
            ]
        )
        first = self.taken(queue)
        queue.put([self.run(clock, "b.1", 5e6, needs={"gpu": 1})])
        got = []
        for _ in range(3):
            self.finish(queue, *first)
            first = self.taken(queue)
            got += first
        assert "b.1" in got[:2], got

    def test_a_large_overdue_run_is_passed_by_one_run_of_each_other_tenant_and_no_more(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.set_pool("gpu", slots(2))
        small = cycle(["b", "c"])
        queue.put([self.run(clock, f"{next(small)}.{number}", 1e6, needs={"gpu": 1}) for number in range(40)])
        running = self.taken(queue)
        assert len(running) == 2
        queue.put([self.run(clock, "a.large", OVERDUE_KEY, needs={"gpu": 2})])
        passed = 0
        while "a.large" not in running:
            ended = running.pop(0)
            self.finish(queue, ended)
            got = self.taken(queue)
            running += got
            passed += len(got)
            assert passed <= 3, "two small tenants, and the large run itself"

    def test_a_deadline_that_can_be_kept_goes_before_the_turn_of_another_once(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        self.backlog(queue, clock, "a", 20)
        queue.put([self.run(clock, f"b.{number}", 1000 + number, by_deadline=True) for number in range(5)])
        assert self.tenants(queue, 7) == ["b", "a", "b", "b", "a", "b", "b"]
        queue.put([self.run(clock, f"b.{number}", OVERDUE_KEY, by_deadline=True) for number in range(5, 10)])
        assert self.tenants(queue, 4) == ["a", "b"] * 2

    def test_turns_change_which_run_of_a_tier_starts_and_not_when_the_tier_does(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        queue.put([self.run(clock, f"a.{number}", 1000 + number) for number in range(2)])
        queue.put([self.run(clock, "b.1", 9000)])
        queue.put([replace(self.run(clock, f"z.{number}", 5000 + number), tier=2) for number in range(2)])
        assert self.tenants(queue, 5) == ["a", "b", "a", "z", "z"]

    def test_runs_without_a_tenant_go_by_key(self, queue: DispatchQueue, clock: Clock) -> None:
        queue.put([self.entry(clock, f"x{number}", number) for number in range(4)])
        self.backlog(queue, clock, "a", 3, key=100)
        self.backlog(queue, clock, "b", 3, key=200)
        queue.put([self.entry(clock, "y", 150)])
        assert self.taken(queue) == ["x0", "x1", "x2", "x3", "a.000", "b.000", "a.001", "b.001", "a.002", "y", "b.002"]

    def test_a_run_that_is_given_back_costs_its_tenant_the_turn_and_keeps_its_key(
        self, queue: DispatchQueue, clock: Clock
    ) -> None:
        self.backlog(queue, clock, "a", 3)
        self.backlog(queue, clock, "b", 3)
        assert self.taken(queue, 1) == ["a.000"]
        assert self.give_back(queue, "a.000")
        assert self.taken(queue) == ["b.000", "a.000", "b.001", "a.001", "b.002", "a.002"]
