"""A value that is costly to read: kept for some seconds, longer if it was slow to read."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

KEPT_S: Final = 5.0
METRIC_READ_PAUSE_RATIO: Final = 50
"""A value is read for at most one part in this many of the time, however often it is asked for."""

T = TypeVar("T")


class KeptValue(Generic[T]):
    """Reads a value when it is asked for and old. Thread-safe; callers during the load wait for the same value."""

    def __init__(self, read: Callable[[], T]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._last: T | None = None
        self._until = -math.inf

    def __call__(self) -> T:
        with self._lock:
            began = time.monotonic()
            if self._last is None or began >= self._until:
                self._last = self._read()
                ended = time.monotonic()
                self._until = ended + max(KEPT_S, METRIC_READ_PAUSE_RATIO * (ended - began))
            return self._last
