"""Learned estimates: how long actions take, read by key from the database and cached for a while."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import NamedTuple

from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.rules.estimates import ActionKey, Estimate, estimate, learned
from duetime.scheduler.store import Store

FRESH_FOR_S = 10.0
"""An answer of this age is used as it is: an action's length does not change by the second."""

USABLE_FOR_S = 60.0
"""An older answer is used while a thread reads the newer one; past this age the caller reads that one row itself."""

MAX_CACHED_ACTIONS = 10_000
"""Actions of tenants that one process remembers: those used last, some hundred bytes each."""


log = logging.getLogger(__name__)


class _Known(NamedTuple):
    learned: Estimate | None
    read_at_s: float


def on_a_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="duetime-estimates", daemon=True).start()


class LearnedEstimates:
    """Answers how long an action takes. A call reads one row at most; without a database, it uses what it knew.

    `soon` runs a piece of work off the caller's path. Thread-safe.
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], float] = time.monotonic,
        soon: Callable[[Callable[[], None]], None] = on_a_thread,
        max_cached: int = MAX_CACHED_ACTIONS,
    ) -> None:
        self._store = store
        self._clock = clock
        self._soon = soon
        self._max_cached = max_cached
        self._lock = threading.Lock()
        self._cache: OrderedDict[ActionKey, _Known] = OrderedDict()
        self._stale: set[ActionKey] = set()
        self._refreshing = False

    def estimate(self, tenant: str, action: str, declared: timedelta | None, own: timedelta | None = None) -> Estimate:
        """Return how long a run takes: the caller's own word, else what was learned, else what its handler declares."""
        found = self._learned((tenant, action)) if own is None else None
        return found or estimate(own, None, declared)

    def prefetch(self, keys: Iterable[ActionKey]) -> None:
        """Read what is not known of these actions together, for a caller that will ask for each of them."""
        now = self._clock()
        with self._lock:
            missing = [of for of in dict.fromkeys(keys) if self._age_s(of, now) > USABLE_FOR_S]
        self._read(missing[: self._max_cached])

    def _learned(self, of: ActionKey) -> Estimate | None:
        age_s = self._age_s(of, self._clock())
        if age_s > USABLE_FOR_S:
            self._read([of])
        elif age_s > FRESH_FOR_S:
            self._refresh(of)
        with self._lock:
            known = self._cache.get(of)
            if known is not None:
                self._cache.move_to_end(of)
        return known.learned if known else None

    def _age_s(self, of: ActionKey, now: float) -> float:
        known = self._cache.get(of)
        return now - known.read_at_s if known else float("inf")

    def _refresh(self, of: ActionKey) -> None:
        """Have a row read again by the one thread that does so, with all others that were asked for meanwhile."""
        with self._lock:
            self._stale.add(of)
            starts, self._refreshing = not self._refreshing, True
        if starts:
            self._soon(self._refresh_stale)

    def _refresh_stale(self) -> None:
        try:
            with self._lock:
                stale, self._stale = list(self._stale), set()
            self._read(stale)
        finally:
            self._refreshing = False

    def _read(self, keys: list[ActionKey]) -> None:
        found = self._found(keys)
        now = self._clock()
        with self._lock:
            for of in keys:
                self._cache[of] = _Known(found.get(of), now)
                self._cache.move_to_end(of)
            while len(self._cache) > self._max_cached:
                self._cache.popitem(last=False)

    def _found(self, keys: list[ActionKey]) -> dict[ActionKey, Estimate | None]:
        """Read estimates; while the database is away, those known count as read, so that nobody waits for it again."""
        try:
            return {of: learned(histogram) for of, histogram in self._store.estimates.get(keys).items()}
        except StoreUnavailable as error:
            log.debug("estimates cannot be read: %s", error)
            return {of: known.learned for of in keys if (known := self._cache.get(of))}
