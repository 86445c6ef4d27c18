"""The state of an installation, as metrics and alerts see it: read from the database and the queue, with bounds."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from duetime.scheduler.dispatch.policy_registry import PolicyRegistry
from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.foresight.lateness import TierLateness, lateness
from duetime.scheduler.nodes.heartbeat import WORKER_STATES, is_alive, state_of
from duetime.scheduler.queue import Shares, Stats
from duetime.scheduler.rules.policies.policy import DEFAULT_POLICY
from duetime.scheduler.runtime.failure_log import RepeatFilter
from duetime.scheduler.store import Store
from duetime.scheduler.task import State, Tier

T = TypeVar("T")

log = logging.getLogger(__name__)
log.addFilter(RepeatFilter())


@dataclass(frozen=True, slots=True)
class InstallationState:
    """The state that any process of an installation sees alike; a part that could not be read is empty or None.

    `disk_used` is the used share of the volume that holds a SQLite file. `database_s` and `queue_s` are the seconds
    that one question took from this process; None without an answer.
    """

    stats: Stats | None = None
    lateness: Sequence[TierLateness] = ()
    open_runs: Mapping[tuple[State, Tier], int] = field(default_factory=dict)
    workers: Mapping[str, int] = field(default_factory=dict)
    lost_threads: int = 0
    database_s: float | None = None
    queue_s: float | None = None
    shares: Shares = DEFAULT_POLICY.shares
    disk_used: float | None = None


class InstallationReader:
    """Reads the state; `stats` queries the queue. Reads continue where one part cannot be read."""

    def __init__(
        self,
        store: Callable[[], Store],
        stats: Callable[[], Stats | None],
    ) -> None:
        self._store = store
        self._stats = stats

    def read(self) -> InstallationState:
        """Read all parts; never raises for a database or a queue that is away."""
        store = self._store()
        _, database_s = self._timed(store.pools.revision)
        stats, queue_s = self._timed(self._stats)
        if database_s is None:
            return InstallationState(stats=stats, queue_s=queue_s if stats else None, disk_used=store.disk_used())
        now = store.now()
        policy = self._timed(PolicyRegistry(store).policy)[0] or DEFAULT_POLICY
        waiting, _ = self._timed(lambda: lateness(store.backlog.waiting(now), now, policy.patience))
        open_runs, _ = self._timed(store.backlog.open_runs)
        workers, lost = self._workers(store)
        return InstallationState(
            stats,
            waiting or (),
            open_runs or {},
            workers,
            lost,
            database_s,
            queue_s if stats else None,
            policy.shares,
            store.disk_used(),
        )

    def _workers(self, store: Store) -> tuple[Mapping[str, int], int]:
        found, _ = self._timed(store.workers.all)
        now = store.now()
        states = Counter(state_of(each, now) for each in found or ())
        lost = sum(each.lost_threads for each in found or () if is_alive(each.seen_at, now))
        return {state: states[state] for state in WORKER_STATES}, lost

    def _timed(self, read: Callable[[], T]) -> tuple[T | None, float | None]:
        began = time.perf_counter()
        try:
            found = read()
        except DuetimeError as error:
            log.warning("cannot read a part of the installation's state: %s", error)
            return None, None
        return found, time.perf_counter() - began
