"""A restart changes nothing that a budget has seen: whatever its limit was before, and whatever retention deletes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta

import pytest
from duetime.scheduler.dispatch.pool_registry import PoolRegistry
from duetime.scheduler.dispatch.retention import Sweep
from duetime.scheduler.history.retention import RetentionKind, RetentionPolicy, RetentionRule
from duetime.scheduler.nodes.pool_publisher import PoolPublisher
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.store import Store
from duetime.scheduler.store.schema.tables.pools import pools
from duetime.scheduler.task import Json
from sqlalchemy import update

from tests.builders import Clock, a_run, restarted, settlement, started

Spec = Mapping[str, Json]

DAILY: Spec = {"kind": "budget", "capacity": 1000, "per": "day"}
SMALL: Spec = {"kind": "budget", "capacity": 100, "per": "day"}
MONTHLY: Spec = {"kind": "budget", "capacity": 1000, "per": "month"}


def use(store: Store, clock: Clock, units: float, pool: str = "money") -> None:
    claim = started(store, clock(), created_at=clock(), updated_at=clock())
    store.claims.settle([settlement(claim, used={pool: units})])


def use_daily(store: Store, clock: Clock, units: float, days: int) -> None:
    for _ in range(days):
        use(store, clock, units)
        clock.forward(days=1)


def spent(store: Store, clock: Clock) -> float:
    """Return the units that a queue is given which is filled now."""
    registry = PoolRegistry(store)
    return registry.spent(registry.read(), clock())["money"]


@pytest.mark.parametrize(
    "before",
    [DAILY, MONTHLY, {"kind": "rate", "capacity": 1000, "per": "minute"}, {"kind": "slots", "capacity": 1000}],
    ids=["larger", "monthly", "rate", "slots"],
)
def test_use_of_before_a_limit_was_set_is_no_debt_of_it(store: Store, clock: Clock, before: Spec) -> None:
    registry = PoolRegistry(store)
    registry.set("money", before)
    use_daily(store, clock, 800, 5)
    registry.set("money", SMALL)
    assert spent(store, clock) == 0
    use(store, clock, 350)
    clock.forward(days=1)
    assert spent(store, clock) == 250
    clock.forward(days=2)
    assert spent(store, clock) == 50


def test_use_of_before_a_limit_was_set_uses_up_its_first_window_at_most(store: Store, clock: Clock) -> None:
    registry = PoolRegistry(store)
    registry.set("money", DAILY)
    use(store, clock, 60)
    clock.forward(minutes=1)
    registry.set("money", SMALL)
    assert spent(store, clock) == 60
    registry.set("money", DAILY)
    use(store, clock, 4000)
    clock.forward(minutes=1)
    registry.set("money", SMALL)
    use(store, clock, 30)
    assert spent(store, clock) == 130
    clock.forward(days=1)
    assert spent(store, clock) == 30


@pytest.mark.parametrize(("changed", "counted"), [(SMALL, 100), (MONTHLY, 1000), ({**DAILY, "headroom": 0.1}, 900)])
def test_a_running_queue_counts_for_a_new_limit_what_one_counts_that_is_filled_then(
    store: Store, clock: Clock, changed: Spec, counted: float
) -> None:
    queue = MemoryQueue(lambda: clock().timestamp() * 1000)
    registry = PoolRegistry(store)
    registry.set("money", DAILY)
    use_daily(store, clock, 700, 3)
    use(store, clock, 900)
    publisher = PoolPublisher(registry, queue, now=clock)
    publisher.fill()
    clock.forward(minutes=1)
    registry.set("money", changed)
    publisher.step()
    assert (queue.stats().pools["money"].spent, spent(store, clock)) == (counted, counted)


@pytest.mark.parametrize("old_row", [False, True], ids=["", "written by an older version"])
def test_a_change_of_anything_but_the_limit_forgives_no_debt(store: Store, clock: Clock, old_row: bool) -> None:
    registry = PoolRegistry(store)
    registry.set("money", SMALL)
    if old_row:
        store._database.write(lambda connection: connection.execute(update(pools).values(limit_set_at=None)))
    use(store, clock, 450)
    clock.forward(days=1)
    for change in ({"price": "2"}, {"price": "3"}, {"headroom": 0.2}, {}):
        registry.set("money", {**SMALL, **change})
        assert spent(store, clock) == 350
    registry.set("money", {**SMALL, "capacity": 101})
    assert spent(store, clock) == 0


@pytest.mark.parametrize("kind", [RetentionKind.TASKS, RetentionKind.RUNS])
def test_retention_makes_no_budget_whole(store: Store, clock: Clock, kind: RetentionKind) -> None:
    PoolRegistry(store).set("money", MONTHLY)
    if kind is RetentionKind.RUNS:
        use_of_a_past_run(store, clock, 1000)
    else:
        use(store, clock, 1000)
    week = RetentionPolicy((RetentionRule(kind, timedelta(days=7)),))

    def swept() -> Counter[str]:
        sweep = Sweep(store, week)
        list(sweep.run())
        return sweep.deleted

    clock.forward(days=1)
    before = spent(store, clock)
    clock.forward(days=9)
    assert before == 1000
    assert (Sweep(store, week).due({kind}), swept()) == ({kind: Counter()}, Counter())
    clock.forward(days=29, hours=23)
    assert swept() == Counter()
    clock.forward(days=1)
    gone = swept()
    assert (gone["runs"], gone["usage"]) == (1, 1)


def use_of_a_past_run(store: Store, clock: Clock, units: float) -> None:
    """Use units in a run that another has followed, so that a rule of runs may take it."""
    first = started(store, clock(), created_at=clock(), updated_at=clock(), repeat="every hour")
    following = a_run(first.task, clock() + timedelta(hours=1), number=2)
    store.claims.settle([settlement(first, used={"money": units}, next_run=following)])
    clock.forward(hours=1)
    second = restarted(store, store.tasks.get(first.run.tenant, first.task.id))
    last = a_run(first.task, clock() + timedelta(days=300), number=3)
    store.claims.settle([settlement(second, next_run=last)])


@pytest.mark.parametrize("spec", [{"kind": "slots", "capacity": 9}, {"kind": "rate", "capacity": 9}])
def test_the_use_of_other_pools_keeps_no_task(store: Store, clock: Clock, spec: Spec) -> None:
    PoolRegistry(store).set("money", spec)
    use(store, clock, 3)
    clock.forward(days=8)
    sweep = Sweep(store, RetentionPolicy((RetentionRule(RetentionKind.TASKS, timedelta(days=7)),)))
    list(sweep.run())
    assert (sweep.deleted["tasks"], sweep.deleted["usage"]) == (1, 1)


def test_a_restart_keeps_the_debt_of_each_tenant_under_a_template(store: Store, clock: Clock) -> None:
    registry = PoolRegistry(store)
    registry.set("tenant:*", SMALL)
    registry.set("tenant:own", {"kind": "slots", "capacity": 4})
    for tenant, units in (("acme", 350), ("globex", 130), ("own", 500), ("small", 90)):
        use(store, clock, units, f"tenant:{tenant}")
    clock.forward(days=1)
    use(store, clock, 20, "tenant:small")
    given = registry.spent(registry.read(), clock())
    assert given == {"tenant:acme": 250, "tenant:globex": 30, "tenant:small": 20}


def test_a_sliding_rate_of_a_template_counts_what_each_tenant_used_in_its_window(store: Store, clock: Clock) -> None:
    registry = PoolRegistry(store)
    registry.set("tenant:*", {"kind": "rate", "capacity": 10, "per": "hour", "sliding": True})
    use(store, clock, 4, "tenant:old")
    clock.forward(hours=1, minutes=1)
    use(store, clock, 3, "tenant:acme")
    given = registry.spent(registry.read(), clock())
    assert {name: units for name, units in given.items() if units} == {"tenant:acme": 3}
