"""How long actions take, as this installation has seen: read from the database now and then, and asked all the time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from datetime import timedelta

from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.rules.estimates import Estimate, Histogram, estimate
from duetime.scheduler.store import Store

FRESH = 10.0
"""Seconds for which what was read is good enough: an action's length does not change by the second."""

log = logging.getLogger(__name__)


class Experience:
    """Answers from what was learned at most ten seconds ago; without a database, from what was known. Thread-safe."""

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._read_at: float | None = None
        self._learned: Mapping[tuple[str, str], Histogram] = {}

    def estimate(self, tenant: str, action: str, declared: timedelta | None, own: timedelta | None = None) -> Estimate:
        """Say how long a run takes: the caller's own word, else what was learned, else what its handler declares."""
        if own is not None:
            return estimate(own, None, declared)
        return estimate(None, self._current().get((tenant, action)), declared)

    def _current(self) -> Mapping[tuple[str, str], Histogram]:
        now = self._clock()
        if self._read_at is None or now - self._read_at > FRESH:
            self._read_at = now
            try:
                self._learned = self._store.estimates.get_all()
            except StoreUnavailable as error:
                log.debug("estimates cannot be read: %s", error)
        return self._learned
