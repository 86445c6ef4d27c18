"""Log lines that would repeat: failures of a step that is tried again whatever happens, and lines of one kind."""

from __future__ import annotations

import logging
import math
import re
import threading
import time
from collections.abc import Callable
from typing import Final

from duetime.scheduler.errors import DuetimeError, StoreUnavailable

FAILURE_LOG_INTERVAL_S: Final = 60.0
"""Seconds after which a failure that lasts is a warning once more."""

REPEAT_INTERVAL_S: Final = 60.0
MAX_KINDS_KEPT: Final = 256

_NUMBERS = re.compile(r"\d+")

log = logging.getLogger(__name__)


class FailureLog:
    """Logs each failure of a step: the first of a row as a warning, and one of the same kind once a minute.

    Failures in between are for debugging only. A failure that is no DuetimeError is logged with its traceback. `count`
    is the length of the current row; `clock` counts seconds.
    """

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._clock = clock
        self._warned_at = -math.inf
        self._last: Exception | None = None
        self.count = 0

    def failed(self, error: Exception) -> None:
        """Log a failure of the step."""
        self.count += 1
        level = logging.WARNING if self._is_news(error) else logging.DEBUG
        self._last = error
        log.log(level, "%s: %s", self._name, error, exc_info=error if not isinstance(error, DuetimeError) else None)

    def succeeded(self) -> None:
        """Log the end of a row of failures, if there was one."""
        if self._last is not None:
            what = "the database is available again" if isinstance(self._last, StoreUnavailable) else "recovered"
            log.info("%s: %s, on attempt %d", self._name, what, self.count + 1)
        self.count, self._last = 0, None

    def _is_news(self, error: Exception) -> bool:
        now = self._clock()
        if type(error) is type(self._last) and now - self._warned_at < FAILURE_LOG_INTERVAL_S:
            return False
        self._warned_at = now
        return True


class RepeatFilter(logging.Filter):
    """Passes a line when no other of its kind has passed for a minute, with the number that were left out since.

    Lines of the same exception that differ only in numbers are of one kind. Thread-safe. Attach it by `addFilter`.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._lock = threading.Lock()
        self._passed_at: dict[str, float] = {}
        self._left_out: dict[str, int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        raised = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else ""
        kind, now = _NUMBERS.sub("0", f"{raised} {record.getMessage()}"), self._clock()
        with self._lock:
            if now - self._passed_at.get(kind, -math.inf) < REPEAT_INTERVAL_S:
                self._left_out[kind] = self._left_out.get(kind, 0) + 1
                return False
            self._forget()
            self._passed_at[kind] = now
            left_out = self._left_out.pop(kind, 0)
        if left_out:
            record.msg, record.args = f"{record.getMessage()} ({left_out} more like this before)", ()
        return True

    def _forget(self) -> None:
        """Keep the memory bounded; a forgotten kind passes sooner."""
        if len(self._passed_at) >= MAX_KINDS_KEPT:
            self._passed_at.clear()
            self._left_out.clear()
