"""Stores what handlers log, in batches on a thread of its own: no handler waits for the database.

An attempt that ends soon costs no transaction: its lines are stored by the one that settles it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Final

from duetime.scheduler.runtime.loop import Loop
from duetime.scheduler.store import Store
from duetime.scheduler.worker.logs.attempt_log import AttemptLog

LOG_FLUSH_INTERVAL_S: Final = 1.0
"""Seconds from a line to its place in the database, and the lines that a crash can lose."""


class RunLogWriter:
    """Stores the lines of running attempts, `LOG_FLUSH_INTERVAL_S` after the first that is not stored."""

    def __init__(
        self, store: Store, running: Callable[[], Iterable[AttemptLog]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._running = running
        self._clock = clock
        self._due: float | None = None
        self._long: set[str] = set()
        self._lock = threading.Lock()
        self.loop = Loop("run-logs", self.step)

    def wake(self) -> None:
        """Store soon: an attempt has a line."""
        with self._lock:
            if self._due is not None:
                return
            self._due = self._clock() + LOG_FLUSH_INTERVAL_S
        self.loop.wake()

    def ended(self, logs: Iterable[AttemptLog]) -> None:
        """Cut the logs of ended attempts, if they may have become too long."""
        long = {log.run_id for log in logs if log.may_be_long and log.used}
        if long:
            with self._lock:
                self._long |= long
            self.wake()

    def step(self) -> float | None:
        """Store what is due; return the seconds to wait, None until there is a line."""
        with self._lock:
            due = self._due
            left = None if due is None else due - self._clock()
            if left is not None and left <= 0:
                self._due = None
        if left is None or left > 0:
            return left
        try:
            self.flush()
        except Exception:
            self.wake()
            raise
        return 0.0 if self._due is not None else None

    def flush(self) -> None:
        """Store all lines that there are."""
        logs = [log for log in self._running() if log.pending]
        taken = [(log, log.take()) for log in logs]
        with self._lock:
            long, self._long = self._long, set()
        long |= {log.run_id for log in logs if log.may_be_long}
        try:
            self._store.run_logs.write([chunk for _, chunks in taken for chunk in chunks], cut=long)
        except Exception:
            with self._lock:
                self._long |= long
            raise
        for log, chunks in taken:
            log.stored(chunks)
        if any(log.pending for log in logs):  # a line came during the write, to a log that had one already
            self.wake()
