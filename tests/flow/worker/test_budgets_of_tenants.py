"""A quota of all tenants that is a budget: each tenant keeps its debt over a restart, in memory and in Redis."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from duetime.scheduler.dispatch.pool_registry import PoolRegistry
from duetime.scheduler.nodes.pool_publisher import PoolPublisher
from duetime.scheduler.queue import DispatchQueue
from duetime.scheduler.store import Store
from duetime.scheduler.task import Json

from tests.builders import Clock, settlement, started

DAILY: Mapping[str, Json] = {"kind": "budget", "capacity": 100, "per": "day", "zone": "UTC"}


def use(store: Store, clock: Clock, pool: str, units: float) -> None:
    claim = started(store, clock(), created_at=clock(), updated_at=clock())
    store.claims.settle([settlement(claim, used={pool: units})])


def spent(queue: DispatchQueue) -> dict[str, float]:
    return {name: use.spent for name, use in queue.stats().pools.items() if use.spent}


@pytest.mark.parametrize("start", ["step", "fill"])
def test_a_queue_that_starts_empty_gets_the_debt_of_each_tenant(
    store: Store, queue: DispatchQueue, clock: Clock, start: str
) -> None:
    registry = PoolRegistry(store)
    registry.set("tenant:*", DAILY)
    for tenant, units in (("acme", 350), ("globex", 40)):
        use(store, clock, f"tenant:{tenant}", units)
    clock.forward(days=1)
    use(store, clock, "tenant:globex", 10)
    publisher = PoolPublisher(registry, queue, now=clock)
    getattr(publisher, start)()
    assert spent(queue) == {"tenant:acme": 250, "tenant:globex": 10}
    clock.forward(days=1)
    publisher.step()
    assert spent(queue) == {"tenant:acme": 150}, "the queue counts on by itself"


def test_a_tenant_whose_own_quota_was_removed_keeps_its_debt_under_the_template_after_a_restart(
    store: Store, queue: DispatchQueue, clock: Clock
) -> None:
    registry = PoolRegistry(store)
    registry.set("tenant:*", DAILY)
    registry.set("tenant:acme", DAILY)
    use(store, clock, "tenant:acme", 80)
    registry.remove("tenant:acme")
    PoolPublisher(registry, queue, now=clock).step()
    assert spent(queue) == {"tenant:acme": 80}
