"""Lateness of ready runs: the oldest of each tier against the patience of the tier, and the throughput."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from duetime.scheduler.records import Throughput, Waiting
from duetime.scheduler.rules.order import PATIENCE
from duetime.scheduler.rules.time.times import length
from duetime.scheduler.store import Store
from duetime.scheduler.task import Tier

REPORT_INTERVAL_S = 5.0
REPORT_PAUSE_RATIO = 50
"""Reports read the database for at most one part in this many of the time, for any number of ready runs."""


@dataclass(frozen=True, slots=True)
class TierLateness:
    """The ready runs of one tier: how many, how long the oldest has waited, and how long it may."""

    tier: Tier
    waiting: int
    oldest: timedelta
    patience: timedelta

    @property
    def is_late(self) -> bool:
        return self.oldest > self.patience

    def text(self) -> str:
        may = f"longer than its patience of {length(self.patience)}" if self.is_late else "within its patience"
        return f"{self.tier}: {self.waiting} ready, the oldest for {_whole(self.oldest)}, {may}"


@dataclass(frozen=True, slots=True)
class BacklogReport:
    """The lateness of every tier, the most urgent first, and the throughput."""

    tiers: tuple[TierLateness, ...]
    throughput: Throughput

    def late(self) -> tuple[str, ...]:
        """Return a sentence for each tier whose oldest run has waited longer than its patience."""
        return tuple(tier.text() for tier in self.tiers if tier.is_late)

    def lines(self) -> tuple[str, ...]:
        """Return a sentence for each tier that has ready runs, and one for the throughput."""
        return (*(tier.text() for tier in self.tiers if tier.waiting), self.throughput_text())

    def throughput_text(self) -> str:
        found = self.throughput
        return f"in the last {_whole(found.window)}: {found.ready} runs became ready, {found.ended} ended"


def report(store: Store) -> BacklogReport:
    now = store.now()
    return BacklogReport(lateness(store.backlog.waiting(now), now), store.backlog.throughput(now))


def lateness(waiting: Mapping[Tier, Waiting], now: datetime) -> tuple[TierLateness, ...]:
    """Compare the oldest run of each tier with the tier's patience, the most urgent tier first."""
    return tuple(_of_tier(tier, waiting.get(tier), now) for tier in sorted(Tier, key=lambda tier: tier.rank))


def _of_tier(tier: Tier, found: Waiting | None, now: datetime) -> TierLateness:
    if found is None:
        return TierLateness(tier, 0, timedelta(0), PATIENCE[tier])
    waited = max(timedelta(0), now - found.since)  # a run may be ready a second early
    return TierLateness(tier, found.count, waited, PATIENCE[tier])


def _whole(span: timedelta) -> str:
    return length(timedelta(seconds=math.floor(span.total_seconds())))


class BacklogMonitor:
    """Reports for those that ask often: a report is kept for some seconds, longer if it was slow to make."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._last: BacklogReport | None = None
        self._until = -math.inf

    def report(self) -> BacklogReport:
        began = self._clock()
        if self._last is None or began >= self._until:
            self._last = report(self._store)
            now = self._clock()
            self._until = now + max(REPORT_INTERVAL_S, REPORT_PAUSE_RATIO * (now - began))
        return self._last
