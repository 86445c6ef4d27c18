"""The pools of an installation: declared by settings and by admins, stored in the database."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, partial

from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.dispatch.policy_registry import PolicyRegistry
from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.principal import LOCAL, Principal
from duetime.scheduler.rules.limits.pool import Pool, PoolKind, spent_with_debt
from duetime.scheduler.rules.limits.pool_spec import read_pool, spec_of
from duetime.scheduler.store import Store
from duetime.scheduler.store.pools import PoolNotFound
from duetime.scheduler.task import Json

POOLS_FRESH_S = 1.0
"""Seconds for which cached pools may decide about a task."""

LAST_CHANCE = "duetime:last-chance"
"""A pool of one slot: a run on its last attempt after crashes runs alone.

If it crashes the worker again, no other such run crashes with it.
"""

CONFIGURATION = "configuration"
"""The actor of pools that a start declared."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DeclaredPool:
    """A pool, and the revision at which it is declared: it rises with each change."""

    pool: Pool
    revision: int


class PoolRegistry:
    """Reads and changes the pools. Thread-safe.

    `zone` is the default time zone of windows and hours, `currency` the name of that of all prices. `via` is the way of
    changes whose principal names none.
    """

    def __init__(
        self,
        store: Store,
        *,
        zone: str | None = None,
        currency: str = "USD",
        via: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._zone = zone or "UTC"
        self._via = via
        self._clock = clock
        self._read_at: float | None = None
        self._known: Mapping[str, Pool] = {}
        self.policies = PolicyRegistry(store)
        store.usage.declared, store.usage.currency = self.priced, currency
        self.published: Mapping[str, Pool] | None = None
        """The pools that this process last sent to the queue; None when they may have changed since."""

    def pools(self) -> Mapping[str, Pool]:
        """Return the pools by name, at most a second old; without a database, the last known ones."""
        if self._read_at is None or self._clock() - self._read_at > POOLS_FRESH_S:
            try:
                self._known = self.read()
            except StoreUnavailable:
                if self._read_at is None:
                    raise
            self._read_at = self._clock()
        return self._known

    def known(self) -> Mapping[str, Pool]:
        """Return the pools that the queue has. With a `PoolPublisher` in this process, this makes no query."""
        published = self.published
        return self.pools() if published is None else published

    def priced(self) -> Mapping[str, Pool]:
        """Return the pools that decide what use costs: those that the queue has, which needs no query, or current ones.

        Without a database, they are the last known ones.
        """
        published = self.published
        try:
            return self.read() if published is None else published
        except StoreUnavailable:
            return self._known

    def read(self) -> Mapping[str, Pool]:
        """Return the current pools by name, without declarations that this version cannot read."""
        found = {stored.name: self._understood(stored.name, stored.spec) for stored in self._store.pools.all()}
        return {name: pool for name, pool in found.items() if pool is not None}

    def declare(self, specs: Mapping[str, Mapping[str, Json]], tenant: str = LOCAL.tenant) -> None:
        """Apply declarations that differ from the last declared ones; the audit log of `tenant` has the changes.

        So a change by an admin stays. Raises InvalidArgument(s) for a wrong declaration.
        """
        read = {name: spec_of(read_pool(name, spec, zone=self._zone)) for name, spec in specs.items()}
        self._store.pools.declare(read, AuditEntry(tenant, AuditKind.POOL_SET, CONFIGURATION, self._via))
        self._read_at = self.published = None

    def get(self, name: str) -> DeclaredPool | None:
        """Return a pool with its revision; None unless it is declared, and this version can read it."""
        stored = self._store.pools.get(name)
        pool = self._understood(name, stored.spec) if stored else None
        return DeclaredPool(pool, stored.revision) if stored and pool else None

    def set(
        self,
        name: str,
        spec: Mapping[str, Json],
        *,
        by: Principal = LOCAL,
        reason: str | None = None,
        based_on: int | None = None,
    ) -> DeclaredPool:
        """Create or change a pool; reserved units stay reserved. Raises InvalidArgument(s) for a wrong `spec`.

        Raises StalePool unless the pool is at the revision that the change is `based_on`, where it names one; revision
        0 stands for no pool.
        """
        pool = read_pool(name, spec, zone=self._zone)
        act = AuditEntry.by(replace(by, via=by.via or self._via), AuditKind.POOL_SET, reason=reason)
        stored = self._store.pools.put(name, spec_of(pool), act, based_on=based_on)
        self._read_at = self.published = None
        return DeclaredPool(pool, stored.revision)

    def remove(
        self, name: str, *, by: Principal = LOCAL, reason: str | None = None, based_on: int | None = None
    ) -> None:
        """Remove a pool; runs that need it are held until it exists again.

        Raises PoolNotFound for an unknown one, and StalePool as `set` does.
        """
        act = AuditEntry.by(replace(by, via=by.via or self._via), AuditKind.POOL_REMOVED, reason=reason)
        removed = self._store.pools.remove(name, act, based_on=based_on)
        self._read_at = self.published = None
        if not removed:
            raise PoolNotFound(name)

    def removed(self) -> Collection[str]:
        """Return the names of removed pools."""
        return self._store.pools.removed()

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed` when the dispatcher of this process sees a change; it replaces an earlier callback."""
        self._store.pools.on_change = changed

    def revision(self) -> int:
        """Return a number that rises with each change of a pool."""
        return self._store.pools.revision()

    def spent(self, pools: Mapping[str, Pool], now: datetime) -> Mapping[str, float]:
        """Return the units used of budgets and sliding rates, as a queue must know them.

        Of a budget these are the units since its window began, and the debt of earlier windows since its limit was set.
        Of a sliding rate they are those of the runs that ended in the current window. Runs that are still running are
        not among them. In place of a template it has the pools that were made from it.
        """
        limited = {stored.name: stored.limited_since for stored in self._store.pools.all()}
        found: dict[str, float] = {}
        for pool in pools.values():
            used: Mapping[str, float] = {}
            if pool.kind is PoolKind.BUDGET:
                used = self._spent(pool, now, limited.get(pool.name, now))
            elif pool.window:
                used = self._store.usage.since({pool.name: now - pool.window})
            found |= {name: units for name, units in used.items() if name == pool.name or name not in pools}
        return found

    def _spent(self, pool: Pool, now: datetime, limited_since: datetime) -> dict[str, float]:
        """Return the units spent of a budget; those of before its limit was set use up one window at most."""
        usage = self._store.usage
        starts = pool.window_starts(now, back_to=max(limited_since, usage.first(pool.name) or now))
        since = cache(lambda start: usage.since({pool.name: start}))
        oldest, limited = since(starts[-1]), since(max(limited_since, starts[-1]))

        def left(name: str, age: int) -> float:
            units = since(starts[age]).get(name, 0.0)
            before = oldest[name] - limited.get(name, 0.0)
            return units - max(0.0, before - pool.capacity) if age == len(starts) - 1 else units

        return {name: spent_with_debt(partial(left, name), len(starts), pool.capacity) for name in oldest}

    def _understood(self, name: str, spec: Mapping[str, Json]) -> Pool | None:
        try:
            return read_pool(name, spec, zone=self._zone)
        except Exception as error:  # noqa: BLE001 - one bad row must not stop all pools
            log.error("cannot read pool %s, so runs that need it are held: %s", name, error)  # noqa: TRY400 - no defect
            return None
