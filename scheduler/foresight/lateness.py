"""Lateness of ready runs: the oldest of each tier against the patience of the tier, and the throughput."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from duetime.scheduler.history.work_report import Throughput, Waiting
from duetime.scheduler.rules.order import PATIENCE
from duetime.scheduler.rules.policies.policy import DEFAULT_POLICY, OrderPolicy
from duetime.scheduler.rules.shares import Shares
from duetime.scheduler.rules.time.times import length
from duetime.scheduler.store import Store
from duetime.scheduler.task import Tier

MIN_WHOLE_RATE_PER_MINUTE = 10
REPORT_INTERVAL_S = 5.0
REPORT_PAUSE_RATIO = 50
"""Reports read the database for at most one part in this many of the time, for any number of ready runs."""


@dataclass(frozen=True, slots=True)
class TierLateness:
    """The ready runs of one tier: how many, how long the oldest has waited, and how long it may.

    With `at_least` there may be more, and older ones.
    """

    tier: Tier
    waiting: int
    oldest: timedelta
    patience: timedelta
    at_least: bool = False

    @property
    def is_late(self) -> bool:
        return self.oldest > self.patience

    def text(self) -> str:
        may = f"longer than its patience of {length(self.patience)}" if self.is_late else "within its patience"
        count = f"{self.waiting}+" if self.at_least else self.waiting
        return f"{self.tier}: {count} ready, the oldest for {_whole(self.oldest)}, {may}"


@dataclass(frozen=True, slots=True)
class BacklogReport:
    """The lateness of every tier, the most urgent first, the throughput, and the shares in force."""

    tiers: tuple[TierLateness, ...]
    throughput: tuple[Throughput, ...]
    shares: Shares = DEFAULT_POLICY.shares

    def late(self) -> tuple[str, ...]:
        """Return a sentence for each tier whose oldest run has waited longer than its patience."""
        return tuple(tier.text() for tier in self.tiers if tier.is_late)

    def late_tiers(self) -> set[Tier]:
        return {tier.tier for tier in self.tiers if tier.is_late}

    def lines(self) -> tuple[str, ...]:
        """Return a sentence for each tier that has ready runs, and one for the throughput."""
        return (*(tier.text() for tier in self.tiers if tier.waiting), throughput_text(self.throughput))


def throughput_text(throughput: Sequence[Throughput]) -> str:
    """Say how many runs a minute became ready, started and ended, in each of the windows."""
    windows = ", ".join(_whole(found.window) for found in throughput)
    ready, started, ended = (
        " / ".join(per_minute(count, found.window) for found, count in zip(throughput, counts, strict=True))
        for counts in zip(*((found.ready, found.started, found.ended) for found in throughput), strict=True)
    )
    return f"per minute, in the last {windows}: {ready} became ready, {started} started, {ended} ended"


def per_minute(count: int, window: timedelta) -> str:
    """Write a rate with up to three digits."""
    rate = count * timedelta(minutes=1) / window if window else 0.0
    return f"{rate:.0f}" if rate >= MIN_WHOLE_RATE_PER_MINUTE else f"{rate:.2g}"


def report(store: Store, policy: OrderPolicy = DEFAULT_POLICY) -> BacklogReport:
    now = store.now()
    tiers = lateness(store.backlog.waiting(now), now, policy.patience)
    return BacklogReport(tiers, store.backlog.throughput(now), policy.shares)


def lateness(
    waiting: Mapping[Tier, Waiting], now: datetime, patience: Mapping[Tier, timedelta] = PATIENCE
) -> tuple[TierLateness, ...]:
    """Compare the oldest run of each tier with the tier's patience, the most urgent tier first."""
    tiers = sorted(Tier, key=lambda tier: tier.rank)
    return tuple(_of_tier(tier, waiting.get(tier), now, patience[tier]) for tier in tiers)


def _of_tier(tier: Tier, found: Waiting | None, now: datetime, patience: timedelta) -> TierLateness:
    if found is None:
        return TierLateness(tier, 0, timedelta(0), patience)
    waited = max(timedelta(0), now - found.since)  # a run may be ready a second early
    return TierLateness(tier, found.count, waited, patience, found.at_least)


def _whole(span: timedelta) -> str:
    return length(timedelta(seconds=math.floor(span.total_seconds())))


class BacklogMonitor:
    """Reports for those that ask often: a report is kept for some seconds, longer if it was slow to make."""

    def __init__(
        self,
        store: Store,
        clock: Callable[[], float] = time.monotonic,
        *,
        policy: Callable[[], OrderPolicy] = lambda: DEFAULT_POLICY,
    ) -> None:
        self._store = store
        self._policy = policy
        self._clock = clock
        self._lock = threading.Lock()
        self._last: BacklogReport | None = None
        self._late_before: set[Tier] = set()
        self._until = -math.inf

    def report(self) -> BacklogReport:
        with self._lock:  # callers during it wait for the same report
            began = self._clock()
            if self._last is None or began >= self._until:
                self._late_before = self._last.late_tiers() if self._last else set()
                self._last = report(self._store, self._policy())
                now = self._clock()
                self._until = now + max(REPORT_INTERVAL_S, REPORT_PAUSE_RATIO * (now - began))
            return self._last

    def late(self) -> tuple[str, ...]:
        """Return a sentence for each tier that is late in this report and was so in the one before.

        One run that waits for a moment is no problem to tell of and to take back five seconds later.
        """
        found = self.report()
        return tuple(tier.text() for tier in found.tiers if tier.is_late and tier.tier in self._late_before)
