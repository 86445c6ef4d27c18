"""Learned estimates: durations of actions, read by key from the database and cached."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import NamedTuple

from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.rules.estimates import ActionKey, Estimate, estimate, estimate_from
from duetime.scheduler.store import Store

ESTIMATE_FRESH_S = 10.0
"""Age up to which a cached estimate is used as it is, because durations change slowly."""

ESTIMATE_USABLE_S = 60.0
"""Age up to which a cached estimate is used while a thread reads a newer one; past it the caller reads the row."""

MAX_CACHED_ACTIONS = 10_000
"""Cached actions per process: the last used ones, some hundred bytes each."""


log = logging.getLogger(__name__)


class _Known(NamedTuple):
    learned: Estimate | None
    read_at_s: float


def start_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="duetime-estimates", daemon=True).start()


class LearnedEstimates:
    """Returns durations of actions. A call reads one row at most; without a database it uses the cache.

    `soon` runs work off the caller's thread. Thread-safe.
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], float] = time.monotonic,
        soon: Callable[[Callable[[], None]], None] = start_thread,
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
        """Return the duration of a run: the caller's own estimate, else the learned one, else the declared one."""
        found = self._learned((tenant, action)) if own is None else None
        return found or estimate(own, None, declared)

    def prefetch(self, keys: Iterable[ActionKey]) -> None:
        """Read the unknown ones of these actions in one query, before a caller needs them one by one."""
        now = self._clock()
        with self._lock:
            missing = [key for key in dict.fromkeys(keys) if self._age_s(key, now) > ESTIMATE_USABLE_S]
        self._read(missing[: self._max_cached])

    def _learned(self, key: ActionKey) -> Estimate | None:
        age_s = self._age_s(key, self._clock())
        if age_s > ESTIMATE_USABLE_S:
            self._read([key])
        elif age_s > ESTIMATE_FRESH_S:
            self._refresh(key)
        with self._lock:
            known = self._cache.get(key)
            if known is not None:
                self._cache.move_to_end(key)
        return known.learned if known else None

    def _age_s(self, key: ActionKey, now: float) -> float:
        known = self._cache.get(key)
        return now - known.read_at_s if known else float("inf")

    def _refresh(self, key: ActionKey) -> None:
        """Queue a row for the thread that reads all queued rows; where none can start now, a later call starts it."""
        with self._lock:
            self._stale.add(key)
            starts, self._refreshing = not self._refreshing, True
        try:
            if starts:
                self._soon(self._refresh_stale)
        except RuntimeError as error:
            log.debug("no thread can be started to read estimates: %s", error)
            self._refreshing = False

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
            for key in keys:
                self._cache[key] = _Known(found.get(key), now)
                self._cache.move_to_end(key)
            while len(self._cache) > self._max_cached:
                self._cache.popitem(last=False)

    def _found(self, keys: list[ActionKey]) -> dict[ActionKey, Estimate | None]:
        """Return stored estimates; while the database is away, cached ones, so that no caller waits for it again."""
        try:
            return {key: estimate_from(histogram) for key, histogram in self._store.estimates.get(keys).items()}
        except StoreUnavailable as error:
            log.debug("cannot read estimates: %s", error)
            return {key: known.learned for key in keys if (known := self._cache.get(key))}
