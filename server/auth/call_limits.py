"""Calls a minute of each tenant, counted by this process: a busy tenant must not keep others from being answered."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from duetime.scheduler.errors import DuetimeError

CALL_WINDOW_S = 60.0
MIN_MISSING_RATIO = 1e-6
"""A smaller part of a call is counted as none: an obedient caller must not be a nanosecond early."""

MAX_TENANTS_COUNTED = 10_000
"""Tenants whose calls are counted; beyond them, those that have not called lately are forgotten."""


class TooManyCalls(DuetimeError):
    """The tenant has made as many calls as it may; `wait_s` are the whole seconds until the next one is answered."""

    code = "too_many_calls"

    def __init__(self, limit: int, wait_s: int) -> None:
        self.wait_s = wait_s
        super().__init__(
            f"tenant_calls_per_minute: this tenant may make {limit} calls a minute. Nothing was done; "
            f"repeat the call in {wait_s} s."
        )


@dataclass(slots=True)
class _Bucket:
    """The calls that are left to a tenant at a time."""

    left: float
    at: float


class CallLimits:
    """Lets each tenant make `per_minute` calls, all at once or spread; 0 sets no limit. Thread-safe."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = per_minute
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}
        self._lock = threading.Lock()

    def take(self, tenant: str) -> None:
        """Count one call; raises TooManyCalls when none is left."""
        if not self._limit:
            return
        with self._lock:
            bucket = self._filled(tenant)
            missing = 1 - bucket.left
            if missing > MIN_MISSING_RATIO:
                raise TooManyCalls(self._limit, math.ceil(missing * CALL_WINDOW_S / self._limit))
            bucket.left -= 1

    def _filled(self, tenant: str) -> _Bucket:
        """Return the bucket of a tenant with what has come back since it was looked at."""
        now = self._clock()
        bucket = self._buckets.get(tenant)
        if bucket is None:
            self._make_room(now)
            bucket = self._buckets.setdefault(tenant, _Bucket(self._limit, now))
        bucket.left = min(self._limit, bucket.left + (now - bucket.at) * self._limit / CALL_WINDOW_S)
        bucket.at = now
        return bucket

    def _make_room(self, now: float) -> None:
        if len(self._buckets) >= MAX_TENANTS_COUNTED:
            self._buckets = {name: each for name, each in self._buckets.items() if now - each.at < CALL_WINDOW_S}
