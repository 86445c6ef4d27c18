"""Log of a step that is repeated whatever happens: its failures, and the end of a row of them."""

from __future__ import annotations

import logging

from duetime.scheduler.errors import DuetimeError, StoreUnavailable

log = logging.getLogger(__name__)


class FailureLog:
    """Logs each failure of a step: the first of a row as a warning, those that repeat its kind for debugging only.

    A failure that is no DuetimeError is logged with its traceback. `count` is the length of the current row.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._last: Exception | None = None
        self.count = 0

    def failed(self, error: Exception) -> None:
        """Log a failure of the step."""
        self.count += 1
        level = logging.DEBUG if type(error) is type(self._last) else logging.WARNING
        self._last = error
        log.log(level, "%s: %s", self._name, error, exc_info=error if not isinstance(error, DuetimeError) else None)

    def succeeded(self) -> None:
        """Log the end of a row of failures, if there was one."""
        if self._last is not None:
            what = "the database is available again" if isinstance(self._last, StoreUnavailable) else "recovered"
            log.info("%s: %s, on attempt %d", self._name, what, self.count + 1)
        self.count, self._last = 0, None
