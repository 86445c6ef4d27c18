"""Log of a step that is repeated whatever happens: its failures, and the end of a row of them."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import Final

from duetime.scheduler.errors import DuetimeError, StoreUnavailable

FAILURE_LOG_INTERVAL_S: Final = 60.0
"""Seconds after which a failure that lasts is a warning once more."""

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
