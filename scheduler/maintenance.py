"""Maintenance: the net under the dispatcher. Whatever the queue has lost, the database still has."""

from __future__ import annotations

import logging

from duetime.scheduler.dispatch import refill
from duetime.scheduler.process import Process
from duetime.scheduler.queue import DispatchQueue
from duetime.scheduler.store import Store

INTERVAL = 30.0

log = logging.getLogger(__name__)


class Maintenance:
    """Puts what is ready in the database, but not in the queue, back into it; at the start, and every 30 seconds."""

    def __init__(self, store: Store, queue: DispatchQueue) -> None:
        self._store = store
        self._queue = queue
        self.process = Process("maintenance", self.step)

    def step(self) -> float:
        found = refill(self._store, self._queue)
        if found:
            log.info("%d ready runs were not in the queue", found)
        return INTERVAL
