"""The last write of this process to the database: whether it failed because nothing can be written there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from duetime.scheduler.errors import StoreUnwritable

FAILURE_KEPT_S = 60.0
"""Seconds for which a failed write counts in a process that writes nothing after it."""


class LastWrite:
    """Keeps the failure of the last write until a later write succeeds. Thread-safe; `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failed: tuple[StoreUnwritable, float] | None = None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch the write in this block. Other errors say nothing of the disk."""
        try:
            yield
        except StoreUnwritable as error:
            self._failed = error, self._clock()
            raise
        else:
            self._failed = None

    def check(self) -> None:
        """Raise StoreUnwritable if the last write failed, in the last FAILURE_KEPT_S."""
        failed = self._failed
        if failed is not None and self._clock() - failed[1] < FAILURE_KEPT_S:
            raise StoreUnwritable(failed[0].message)
