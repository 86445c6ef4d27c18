"""A log filter: lines of one kind pass once a minute."""

from __future__ import annotations

import logging
import math
import re
import threading
import time
from collections.abc import Callable
from typing import Final

REPEAT_INTERVAL_S: Final = 60.0
MAX_KINDS_KEPT: Final = 256

_NUMBERS = re.compile(r"\d+")


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
