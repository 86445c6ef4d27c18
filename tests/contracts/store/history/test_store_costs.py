"""Costs: what attempts cost is added up by day, by task and its parts, by pool and by tenant."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from duetime.scheduler.history.costs import CostGroup
from duetime.scheduler.store import Store
from duetime.scheduler.task import State, Tier

from tests.builders import TENANT, Clock, restarted, settlement, started
from tests.contracts.store.damages import damage, damages

OTHER = "globex"
SINCE, UNTIL = datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)


def spent(store: Store, clock: Clock, at: datetime, costs: dict[str, int], **task: Any) -> str:
    """End an attempt at a time, with its costs by pool; return its task."""
    clock.at = at - timedelta(seconds=1)
    claim = started(store, clock.at, **task)
    clock.at = at
    used = dict.fromkeys(costs, 10.0) | {"free": 1.0}
    store.claims.settle([settlement(claim, State.SUCCEEDED, used=used, costs=costs)])
    return claim.task.id


def sums(
    store: Store, *groups: CostGroup, tenant: str | None = TENANT, zone: str = "UTC"
) -> dict[tuple[str, ...], int]:
    return dict(store.run_history.costs(tenant, SINCE, UNTIL, groups, zone))


def test_costs_are_added_up_by_each_group(store: Store, clock: Clock) -> None:
    noon = datetime(2026, 11, 20, 12, tzinfo=UTC)
    first = spent(store, clock, noon, {"tokens": 3_000_000_000, "usd": 5}, action="prompt", priority=Tier.HIGH)
    second = spent(store, clock, noon + timedelta(hours=11, minutes=30), {"tokens": 7}, action="prompt")
    third = spent(store, clock, noon + timedelta(days=1), {"usd": 11}, action="webhook")
    spent(store, clock, noon, {"tokens": 100}, tenant=OTHER, action="prompt")
    spent(store, clock, noon, {})
    spent(store, clock, UNTIL, {"usd": 1000})
    assert sums(store, CostGroup.ACTION) == {("prompt",): 3_000_000_012, ("webhook",): 11}
    assert sums(store, CostGroup.TIER) == {("high",): 3_000_000_005, ("normal",): 18}
    assert sums(store, CostGroup.POOL) == {("tokens",): 3_000_000_007, ("usd",): 16}
    assert sums(store, CostGroup.TASK) == {(first,): 3_000_000_005, (second,): 7, (third,): 11}
    assert sums(store, CostGroup.TENANT, tenant=None) == {(TENANT,): 3_000_000_023, (OTHER,): 100}
    assert sums(store, CostGroup.DAY) == {("2026-11-20",): 3_000_000_012, ("2026-11-21",): 11}
    assert sums(store, CostGroup.DAY, CostGroup.ACTION, zone="Asia/Kathmandu") == {
        ("2026-11-20", "prompt"): 3_000_000_005,
        ("2026-11-21", "prompt"): 7,
        ("2026-11-21", "webhook"): 11,
    }


def test_a_cost_counts_for_each_label_of_its_task_or_for_none(url: str, store: Store, clock: Clock) -> None:
    noon = datetime(2026, 11, 20, 12, tzinfo=UTC)
    spent(store, clock, noon, {"tokens": 5}, labels=("crm", "home"))
    spent(store, clock, noon, {"tokens": 7}, labels=("crm",))
    spent(store, clock, noon, {"tokens": 11}, labels=())
    wrong = damages("tasks", "labels", url)
    for value in wrong:
        damage(url, "tasks", "labels", value, id=spent(store, clock, noon, {"tokens": 12}, labels=("odd",)))
    assert sums(store, CostGroup.LABEL) == {("crm",): 12, ("home",): 5, ("",): 11 + 12 * len(wrong)}
    assert sums(store, CostGroup.DAY, CostGroup.LABEL)["2026-11-20", "crm"] == 12


def test_an_attempt_costs_on_the_day_on_which_it_ended(store: Store, clock: Clock) -> None:
    noon = datetime(2026, 11, 20, 12, tzinfo=UTC)
    claim = started(store)
    clock.at = noon
    wake = noon + timedelta(days=1)
    store.claims.settle(
        [
            settlement(
                claim, State.RETRYING, wake_at=wake, reason="busy", error="busy", used={"usd": 1.0}, costs={"usd": 2}
            )
        ]
    )
    clock.at = wake
    again = restarted(store, store.tasks.get(TENANT, claim.task.id), worker="w1")
    store.claims.settle([settlement(again, State.SUCCEEDED, used={"usd": 1.0}, costs={"usd": 3})])
    assert sums(store, CostGroup.DAY) == {("2026-11-20",): 2, ("2026-11-21",): 3}
    assert sums(store, CostGroup.TASK) == {(claim.task.id,): 5}
