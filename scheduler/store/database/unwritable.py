"""Rows that this process tries in vain to write, in each round of its maintenance."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

UNWRITABLE_LOG_INTERVAL_S: Final = 3_600.0
"""Seconds between two log lines of one row."""

RETRY_INTERVAL_S: Final = 60.0
"""Seconds without another failure after which a row counts as written, or as tried by another process."""

MAX_ROWS_KEPT: Final = 10_000


class _Failures(NamedTuple):
    logged_at: float
    failed_at: float


class UnwritableRows:
    """Says which failures are worth a log line: the first one of a row, and one an hour. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._rows: dict[str, _Failures] = {}

    def is_news(self, row_id: str) -> bool:
        """Note that a row could not be written; return whether that is to be logged."""
        now = self._clock()
        with self._lock:
            known = self._rows.pop(row_id, None)
            news = known is None or now - known.logged_at >= UNWRITABLE_LOG_INTERVAL_S
            self._rows[row_id] = _Failures(now if known is None or news else known.logged_at, now)
            if len(self._rows) > MAX_ROWS_KEPT:
                del self._rows[next(iter(self._rows))]  # the one that failed longest ago
        return news

    def count(self) -> int:
        """Return how many rows could not be written lately."""
        since = self._clock() - RETRY_INTERVAL_S
        with self._lock:
            return sum(row.failed_at > since for row in self._rows.values())
