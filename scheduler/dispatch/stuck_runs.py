"""Finds ready runs that nothing keeps from starting and that do not start: then keys of the queue are missing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from duetime.scheduler.dispatch.placement import Placement
from duetime.scheduler.queue import DispatchQueue, Entry, Explanation, QueueDamaged, QueueLost, QueueUnavailable
from duetime.scheduler.queue.failsafe import FailsafeQueue
from duetime.scheduler.queue.reports import ThreadUse
from duetime.scheduler.rules.headroom import may_start
from duetime.scheduler.runtime.loop import Loop
from duetime.scheduler.store import Store

STUCK_CHECK_INTERVAL_S = 2.5
"""Seconds between two checks."""

CHECK_PAUSE_RATIO = 50
"""Checks use one part in this many of the time, or one check in ten seconds where the database answers slowly."""

MAX_STUCK_S = 10.0
"""Seconds after which a run that nothing keeps from starting proves that the queue is damaged."""

RUNS_PER_CHECK = 1000
"""Ready runs that one check reads; the next check continues behind them."""

MAX_CLASSES_PER_CHECK = 50
"""Heads that one check asks the queue about: the first runs of each tier, tenant, action and needs."""


class StuckRuns:
    """Reports a queue as damaged once a run has been stuck for ten seconds; a rebuild follows."""

    def __init__(
        self,
        store: Store,
        queue: FailsafeQueue,
        placement: Placement,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._queue = queue
        self._placement = placement
        self._clock = clock
        self._after: str | None = None
        self._found: dict[str, tuple[Entry, float]] = {}
        self.loop = Loop("stuck runs", self.step)

    def step(self) -> float:
        """Look once; return the seconds until the next look."""
        if self._queue.away is not None:
            self._found.clear()
            return STUCK_CHECK_INTERVAL_S
        began = self._clock()
        with suppress(QueueLost, QueueUnavailable):
            self._look()
        return max(STUCK_CHECK_INTERVAL_S, min(MAX_STUCK_S, CHECK_PAUSE_RATIO * (self._clock() - began)))

    def _look(self) -> None:
        now, before = self._clock(), self._found
        stuck = stuck_runs(self._queue, [*(entry for entry, _ in before.values()), *self._next_heads()])
        self._found = {entry.run_id: before.get(entry.run_id, (entry, now)) for entry in stuck}
        stuck_s = now - min((since for _, since in self._found.values()), default=now)
        if stuck_s >= MAX_STUCK_S:
            self._found.clear()
            self._queue.report(
                QueueDamaged(f"the queue is damaged: for {stuck_s:.0f} s it did not start runs that nothing held up")
            )

    def _next_heads(self) -> list[Entry]:
        """Return the heads among the next ready runs; the check after the last ones begins again."""
        page = self._store.claims.ready(limit=RUNS_PER_CHECK, after=self._after)
        self._after = page[-1].run_id if len(page) == RUNS_PER_CHECK else None
        return heads(self._placement.entries(page, self._store.now()))


def heads(entries: Iterable[Entry]) -> list[Entry]:
    """Return the first run of each tier, tenant, action and needs."""
    found: dict[tuple[object, ...], Entry] = {}
    for entry in sorted(entries, key=lambda entry: (entry.key, entry.created, entry.run_id)):
        found.setdefault((entry.tier, entry.tenant, entry.action, *sorted(entry.needs.items())), entry)
    return list(found.values())[:MAX_CLASSES_PER_CHECK]


def stuck_runs(queue: DispatchQueue, entries: Iterable[Entry]) -> list[Entry]:
    """Return the runs that are next in the queue and lack neither a pool nor a thread.

    Raises QueueLost and QueueUnavailable.
    """
    return [entry for entry in entries if _is_stuck(queue, entry)]


def _is_stuck(queue: DispatchQueue, entry: Entry) -> bool:
    found = queue.explain(entry.run_id)
    return found is not None and _is_next(found) and _has_thread(found.threads, entry.tier)


def _is_next(found: Explanation) -> bool:
    """Whether a run is the head of its class, which waits for no pool."""
    return found.ahead == 0 and found.status in ("waiting", "parked") and found.shortage is None


def _has_thread(threads: ThreadUse | None, tier: int) -> bool:
    """Whether a worker that has the action of a run has a thread for it, which its machine can spare."""
    return threads is not None and may_start(threads.headroom, tier, threads.idle)
