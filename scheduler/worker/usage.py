"""Use of reserved pools by attempts, their reports on these pools, and their durations."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.queue import Finish, Report
from duetime.scheduler.rules.estimates import ActionKey
from duetime.scheduler.rules.limits.pool import full_charge
from duetime.scheduler.run_records import Settlement

MAX_DURATIONS_KEPT: Final = 1000
"""Durations per action that are kept while the database is away; older ones are dropped."""


_RETRIED: Final = "retry"
_UNKNOWN: Final = ("cancelled", "lost", "yielded")
"""Outcomes that say nothing about a pool: an interrupted probe proves no recovery."""

_GAVE_UP: Final = ("wait", "cancelled")
"""Outcomes of a handler that returned the result of `Context.throttled`; `cancelled` when a cancel was requested."""

log = logging.getLogger(__name__)


class AttemptUsage:
    """Use of pools by one attempt. `needs` are its reservations, asked for at `taken_at`, by default now.

    Thread-safe, because handlers may use threads.
    """

    def __init__(
        self, needs: Mapping[str, int], clock: Callable[[], float] = time.monotonic, *, taken_at: float | None = None
    ) -> None:
        self._needs = needs
        self._clock = clock
        self._taken_at = clock() if taken_at is None else taken_at
        self._lock = threading.Lock()
        self._used: dict[str, float] = {}
        self._busy: dict[str, float] = {}
        self._began: float | None = None
        self.took: float | None = None
        """Seconds from when the handler was entered until it ended; None where that did not happen."""

    def begin(self) -> None:
        self._began = self._clock()

    def end(self) -> None:
        """Stop the clock; the first call counts, which may precede the return of a lost thread."""
        if self._began is not None and self.took is None:
            self.took = self._clock() - self._began

    def use(self, pool: str, units: float) -> None:
        """Count units that were really used."""
        with self._lock:
            self._used[pool] = self._used.get(pool, 0.0) + units

    def busy(self, pool: str, retry_after: float) -> None:
        """Record that a pool was too busy, for `retry_after` milliseconds."""
        with self._lock:
            self._busy[pool] = max(self._busy.get(pool, 0.0), retry_after)

    def charged(self, outcome: str) -> dict[str, float]:
        """Return the use to store: the counted units, else the reserved ones, which may have been used."""
        with self._lock:
            return dict(self._used) if self._idle(outcome) else {**full_charge(self._needs), **self._used}

    def finish(self, run_id: str, token: str, outcome: str) -> Finish:
        """Return the end of its lease. An attempt that never began used nothing and reports nothing."""
        with self._lock:
            used = {**dict.fromkeys(self._needs, 0.0), **self._used} if self._idle(outcome) else dict(self._used)
        return Finish(run_id, token, used, self._reports(outcome), self._began_after())

    def _began_after(self) -> float:
        """Return the milliseconds from the take to the handler; more than from the grant, by a part of a round trip."""
        return 0.0 if self._began is None else max(0.0, self._began - self._taken_at) * 1000

    def _idle(self, outcome: str) -> bool:
        """Whether it used only what it counted: it never began, or gave up because a pool was too busy."""
        return self._began is None or (bool(self._busy) and outcome in _GAVE_UP)

    def _reports(self, outcome: str) -> tuple[Report, ...]:
        if self.took is None:
            return ()
        return tuple(report for pool in sorted(self._needs) if (report := self._report(pool, outcome)))

    def _report(self, pool: str, outcome: str) -> Report | None:
        retry_after = self._busy.get(pool)
        if retry_after is not None:
            return Report(pool, ok=False, throttled=True, retry_after=retry_after)
        if outcome in _UNKNOWN:
            return None
        latency = (self.took or 0.0) * 1000
        return Report(pool, ok=outcome != _RETRIED, latency=latency)


class Durations:
    """Durations of successful attempts, in seconds, until `store` has taken them. Thread-safe."""

    def __init__(self, store: Callable[[Mapping[ActionKey, Sequence[float]]], None]) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._found: dict[ActionKey, list[float]] = {}

    def add(self, tenant: str, action: str, usage: AttemptUsage, end: Settlement) -> None:
        """Add a settled attempt, if it succeeded."""
        if usage.took is not None and end.outcome == "done":
            with self._lock:
                self._found.setdefault((tenant, action), []).append(usage.took)

    def flush(self) -> None:
        """Store the durations; those that the database does not take now are kept for the next call."""
        with self._lock:
            found, self._found = self._found, {}
        try:
            self._store(found)
        except StoreUnavailable as error:
            log.debug("durations are waiting for the database: %s", error)
            with self._lock:
                for of, seconds in found.items():
                    self._found[of] = [*seconds, *self._found.get(of, [])][-MAX_DURATIONS_KEPT:]
