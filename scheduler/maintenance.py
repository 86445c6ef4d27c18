"""Maintenance: the net under the dispatcher. Whatever the queue has lost, the database still has."""

from __future__ import annotations

import logging
import time
from datetime import timedelta

from duetime.scheduler.dispatch import refill
from duetime.scheduler.process import Process
from duetime.scheduler.queue import DispatchQueue
from duetime.scheduler.store import Store

INTERVAL = 30.0
SHARE = 50
"""At most one part in so many of the time goes into looking, however many runs are ready."""
FORGET_EVERY = timedelta(hours=1)
_MOST_FORGOTTEN = 500

log = logging.getLogger(__name__)


class Maintenance:
    """Puts what is ready in the database, but not in the queue, back into it; at the start, and every 30 seconds.

    Once an hour it forgets idempotency keys that are past their time.
    """

    def __init__(self, store: Store, queue: DispatchQueue) -> None:
        self._store = store
        self._queue = queue
        self._forget_at = store.now()
        self.process = Process("maintenance", self.step)

    def step(self) -> float:
        """Look once, and return the seconds until the next look: the longer one takes, the rarer they are."""
        began = time.monotonic()
        found = refill(self._store, self._queue)
        if found:
            log.info("%d ready runs were not in the queue", found)
        self._forget()
        return max(INTERVAL, SHARE * (time.monotonic() - began))

    def _forget(self) -> None:
        now = self._store.now()
        if now >= self._forget_at and self._store.tasks.forget_keys(limit=_MOST_FORGOTTEN) < _MOST_FORGOTTEN:
            self._forget_at = now + FORGET_EVERY
