"""The place of a run in the queue: its order key, and all units that it must reserve before it starts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from urllib.parse import quote

from duetime.scheduler.chain.inheritance import Inherited, inherit
from duetime.scheduler.dispatch.pool_registry import LAST_CHANCE
from duetime.scheduler.queue import Entry
from duetime.scheduler.queue.lanes import action_of_tenant
from duetime.scheduler.rules.estimates import UNKNOWN_ESTIMATE, Estimate, EstimateLookup, declared_estimate, estimate
from duetime.scheduler.rules.limits.pool import Pool, find_pool
from duetime.scheduler.rules.order import KeyFacts, drop_at, goes_by_deadline
from duetime.scheduler.rules.policies.policy import DEFAULT_POLICY, OrderPolicy
from duetime.scheduler.rules.retry import MAX_CRASHES
from duetime.scheduler.run_records import ReadyRun, Waiter

LAST_CHANCE_DELAY_MS = 5000.0
"""Milliseconds of delay for a run's last attempt after a crash, because a machine in trouble should not end it."""


MAX_EARLY_PLACEMENT = timedelta(seconds=2)
"""Runs become ready up to a second early; an earlier one was due before the clock was set back."""

_MIN_ESTIMATE_CHANGE = timedelta(milliseconds=100)
"""The change of an estimate that is worth a write."""


def no_pools() -> Mapping[str, Pool]:
    return {}


def default_policy() -> OrderPolicy:
    return DEFAULT_POLICY


def no_prefetch(_keys: Iterable[tuple[str, str]]) -> None:
    """Prefetch nothing: every estimate is read by itself."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Computes the places of runs from pools and durations; `declared` returns the estimate of a handler.

    `prefetch` is called with the tenants and actions of a batch before their estimates are read one by one. `external`
    are the actions that workers elsewhere execute, each those of the tenants that they may work for.
    """

    pools: Callable[[], Mapping[str, Pool]] = no_pools
    estimates: EstimateLookup = declared_estimate
    declared: Mapping[str, timedelta] = field(default_factory=dict)
    prefetch: Callable[[Iterable[tuple[str, str]]], None] = no_prefetch
    policy: Callable[[], OrderPolicy] = default_policy
    external: Collection[str] = frozenset()

    def entries(self, runs: Sequence[ReadyRun], now: datetime) -> list[Entry]:
        """Return the places of a batch of runs."""
        self.prefetch((run.tenant, run.action) for run in runs if run.estimate is None)
        return [self.entry(run, now) for run in runs]

    def entry(self, run: ReadyRun, now: datetime) -> Entry:
        """Return the place of a ready run; a run made ready early is delayed until its time."""
        if run.first_ready_at > now + MAX_EARLY_PLACEMENT:
            run = replace(run, first_ready_at=now)
        needs = dict(run.needs)
        quota = f"tenant:{quote(run.tenant)}"  # a tenant's name may contain characters that no pool name may
        if find_pool(self.pools(), quota) is not None:
            needs.setdefault(quota, 1)
        delay = max(0.0, (run.first_ready_at - now).total_seconds() * 1000)
        if run.crashes >= MAX_CRASHES - 1:
            needs[LAST_CHANCE] = 1
            delay = max(delay, LAST_CHANCE_DELAY_MS)
        created, facts = _ms(run.created_at or run.scheduled_for), self.facts(run)
        return Entry(
            run.run_id,
            self.policy().key(facts, run.tier),
            run.tier.rank,
            needs,
            created,
            delay,
            tenant=run.tenant,
            by_deadline=goes_by_deadline(facts, run.tier, self.policy().patience),
            action=self.queued_action(run.action, run.tenant),
        )

    def queued_action(self, action: str, tenant: str) -> str:
        """Return an action as the queue has it: that of its tenant alone, where workers elsewhere execute it."""
        return action_of_tenant(action, tenant) if action in self.external else action

    def key(self, run: ReadyRun) -> float:
        """Return the order key of a run, in milliseconds since 1970: smaller goes first."""
        return self.policy().key(self.facts(run), run.tier)

    def facts(self, run: ReadyRun) -> KeyFacts:
        """Return what the key of a run is computed from, apart from the policy."""
        takes, cost = self._estimate(run), self._cost(run.needs)
        if not run.waiters:
            return KeyFacts(run.first_ready_at, run.deadline, takes.p90, run.late, cost)
        heir = inherit(run.task_id, run.waiters, partial(self._length, run.tenant))
        deadline, late = _effective(run, heir, takes.p50)
        return KeyFacts(run.first_ready_at, deadline, takes.p90, late, cost, heir.unblocks)

    def _length(self, tenant: str, waiter: Waiter) -> timedelta:
        declared = self.declared.get(waiter.action)
        return waiter.estimate or self.estimates(tenant, waiter.action, declared).p90

    def drop_at(self, run: ReadyRun) -> datetime | None:
        """Return the new time of the run's deadline timer; None where the stored one is good enough."""
        if run.deadline is None or run.drop_at is None:
            return None
        p50 = self._estimate(run).p50
        better = run.drop_at if p50 == UNKNOWN_ESTIMATE else drop_at(run.deadline, p50)
        return better if abs(better - run.drop_at) > max(p50 / 10, _MIN_ESTIMATE_CHANGE) else None

    def learned_p90(self, tenant: str, action: str) -> timedelta:
        """Return the duration that nine of ten runs of an action stay below, as learned or declared."""
        return self.estimates(tenant, action, self.declared.get(action)).p90

    def declared_p90(self, action: str) -> timedelta:
        """Return the same, as declared by the handler alone."""
        return estimate(None, None, self.declared.get(action)).p90

    def _estimate(self, run: ReadyRun) -> Estimate:
        """Return the estimate of a run; the learned one counts only while the run can meet its deadline by it.

        Otherwise no run of an action that was slow for a while would start again, and its speed could not be learned
        again.
        """
        declared = self.declared.get(run.action)
        estimated = estimate(run.estimate, None, declared)
        if run.estimate is not None:
            return estimated
        learned = self.estimates(run.tenant, run.action, declared)
        hopeless = run.deadline is not None and run.deadline - learned.p50 <= run.scheduled_for
        return estimated if hopeless else learned

    def _cost(self, needs: Mapping[str, int]) -> float:
        """Return the largest part of any pool that a run takes: its dominant share (Ghodsi et al., 2011)."""
        pools = self.pools() if needs else {}
        found = ((units, find_pool(pools, name)) for name, units in needs.items())
        return max((units / max(1, pool.at_once) for units, pool in found if pool is not None), default=0.0)


def _effective(run: ReadyRun, heir: Inherited, p50: timedelta) -> tuple[datetime | None, bool]:
    """Return the sooner of a run's own deadline and the one that it inherits, and whether it is too late for it.

    A deadline that could not be met when the run was first ready is not inherited: nothing is gained by going first.
    """
    own = None if run.late else run.deadline
    met = heir.finish_by if heir.finish_by and heir.finish_by - p50 > run.first_ready_at else None
    known = [each for each in (own, met) if each is not None]
    return (min(known), False) if known else (run.deadline, run.late)


def _ms(moment: datetime) -> float:
    return moment.timestamp() * 1000
