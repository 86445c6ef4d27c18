"""Publishes the pools of an installation to the queue of this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from duetime.scheduler.dispatch.pool_registry import LAST_CHANCE, PoolRegistry
from duetime.scheduler.queue import DispatchQueue, QueueLost, QueueUnavailable
from duetime.scheduler.rules.limits.admission import Kind, Limits
from duetime.scheduler.rules.limits.pool import LIMIT_PARTS, TEMPLATE_SUFFIX, Pool, PoolKind
from duetime.scheduler.runtime.loop import STEP_TIMEOUT_S, Loop

POOL_CHECK_INTERVAL_S = 10.0
"""Seconds between two looks for changed pools; the dispatcher of each process reports a change within two."""

POOL_RETRY_DELAY_S = 2.0
"""Seconds until a queue that is away gets the pools again."""

POOL_REFRESH_INTERVAL = timedelta(days=1)
"""Interval, by the wall clock, at which the queue gets calendars and windows, of which it holds a week."""

UNDECLARED_LIMITS: Final[Mapping[str, Limits]] = {
    LAST_CHANCE: Limits(Kind.SLOTS, 1),
    "tenant:*": Limits(Kind.SLOTS, 1e12),  # no limit: runs still name the quota that was removed
}
"""Default pools, which a declaration replaces; `key:*` is built into every queue."""

CLOSED: Final = Limits(Kind.SLOTS, 0)
"""The limits of a pool that admits nothing."""


def _do_nothing() -> None:
    """Stand in for a publisher, which other processes have."""


class PoolPublisher:
    """Publishes the pools to a queue at the start, after a change and once a day, and the policy with each look."""

    def __init__(self, registry: PoolRegistry, queue: DispatchQueue, *, now: Callable[[], datetime]) -> None:
        self._registry = registry
        self._queue = queue
        self._now = now
        self._revision: int | None = None
        self._published: Mapping[str, Pool] = {}
        self._published_at = self._refresh_at = now()
        self.loop = Loop("pools", self.step)
        registry.watch(self.loop.wake)

    def step(self) -> float:
        """Publish changes, and return the seconds until the next look."""
        revision = self._registry.revision()
        again = not self._published_at <= self._now() < self._refresh_at  # an earlier now: the clock was set back
        if revision != self._revision or again:
            try:
                self._publish(all_of_them=again)
            except (QueueLost, QueueUnavailable):
                return POOL_RETRY_DELAY_S  # the rebuilding process fills the queue with its current pools
            self._revision = revision
        with suppress(QueueLost, QueueUnavailable):  # as above
            self._registry.policies.publish(self._queue)
        return POOL_CHECK_INTERVAL_S

    def fill(self) -> None:
        """Publish all pools to a queue that is being rebuilt: with the use of budgets, and with empty buckets."""
        revision = self._registry.revision()  # first: a later change is published by the next step
        now, pools = self._now(), self._registry.read()
        spent = self._registry.spent(pools, now)
        for name, limits in self._all(pools, now).items():
            self._queue.set_pool(name, limits, spent=spent.get(name, 0.0), empty=True)
        self._set_members(pools, spent)
        self._registry.policies.publish(self._queue)
        self._published, self._revision = pools, revision
        self._published_at, self._refresh_at = now, now + POOL_REFRESH_INTERVAL
        self._registry.published = pools

    def close(self) -> None:
        """Publish no more; the registry reads what another process publishes from now on."""
        self.loop.stop(STEP_TIMEOUT_S)
        self._registry.watch(_do_nothing)
        self._registry.published = None

    def _publish(self, *, all_of_them: bool) -> None:
        now, pools = self._now(), self._registry.read()
        spent = self._registry.spent(pools, now)
        names = {
            *self._published,
            *(self._registry.removed() if all_of_them else ()),
        }  # by whom this one was not there yet
        for name in names - pools.keys():
            self._queue.set_pool(name, UNDECLARED_LIMITS.get(name))
        for name, limits in self._all(pools, now).items():
            before, after = self._published.get(name), pools.get(name)
            if all_of_them or before != after:
                if before and after and _is_new_budget(before, after):
                    self._queue.set_pool(name, CLOSED)  # or it would keep what it has counted for the other limit
                self._queue.set_pool(name, limits, spent=spent.get(name, 0.0))
        self._published = self._registry.published = pools
        if all_of_them:
            self._set_members(pools, spent)
            self._published_at, self._refresh_at = now, now + POOL_REFRESH_INTERVAL

    def _set_members(self, pools: Mapping[str, Pool], spent: Mapping[str, float]) -> None:
        """Create the pools of templates that have used any of their limit; the queue knows better where it has them."""
        for name in [name for name, units in spent.items() if units and name not in pools]:
            self._queue.set_pool(name, None, spent=spent[name])

    def _all(self, pools: Mapping[str, Pool], now: datetime) -> Mapping[str, Limits]:
        return {**UNDECLARED_LIMITS, **{name: pool.limits(now) for name, pool in pools.items()}}


def _is_new_budget(before: Pool, after: Pool) -> bool:
    """Whether a budget has another limit than before; the queue alone knows what is spent of a template's pools."""
    budgets = {before.kind, after.kind} == {PoolKind.BUDGET} and not after.name.endswith(TEMPLATE_SUFFIX)
    return budgets and any(getattr(before, part) != getattr(after, part) for part in LIMIT_PARTS)
