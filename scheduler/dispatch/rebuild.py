"""Filling a queue that lost everything from the database, and looking after one that may be away."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from duetime.scheduler.dispatch.dispatcher import refill
from duetime.scheduler.dispatch.placement import Placement
from duetime.scheduler.queue import DispatchQueue, Entry, QueueLost, QueueTaken, QueueUnavailable
from duetime.scheduler.queue.failsafe import FailsafeQueue
from duetime.scheduler.records import RunningRun
from duetime.scheduler.runtime.loop import Loop
from duetime.scheduler.store import Store

PAGE = 1000
"""Running runs that are read at once."""

FILLING = 10.0
"""Seconds for which a rebuild puts in what is ready: workers are idle so long, and it lapses after half a minute."""

PROBE = 0.5
"""Seconds between looks for a queue that is away, or that someone else rebuilds."""

LOOK = 2.2
"""Seconds after the last answer of a queue until it is looked at: a server with nothing to do would not learn of an
outage otherwise; a worker with nothing to do asks it for runs every two seconds.
"""

CLAIM = 5.0
"""Seconds between two claims of a queue that is well."""

log = logging.getLogger(__name__)


def rebuild(
    store: Store,
    queue: DispatchQueue,
    *,
    fill: Callable[[], None],
    placement: Placement,
    owner: str,
    clock: Callable[[], float] = time.monotonic,
) -> bool:
    """Fill an empty queue: its pools by `fill`, what runs with what it has reserved, then what is ready.

    Of more than fits into ten seconds the rest is missing, for a `refill` while runs are handed out already. False when
    another process does it, or has begun anew meanwhile. Raises what the queue and the store raise; then it may be
    called again by the same `owner` at once, and by others half a minute after it began.
    """
    if not queue.begin_rebuild(owner):
        return False
    until = clock() + FILLING
    fill()
    _adopt(store, queue)
    refill(store, queue, placement, enough=lambda: clock() >= until)
    return queue.end_rebuild(owner)


def _adopt(store: Store, queue: DispatchQueue) -> None:
    after = None
    while page := store.claims.running(limit=PAGE, after=after):
        for run in page:
            queue.adopt(run.worker, _entry(run), run.token, _left(run, store.now()))
        after = page[-1].run_id


def _entry(run: RunningRun) -> Entry:
    created = run.created_at.timestamp() * 1000
    return Entry(run.run_id, created, run.tier.rank, run.reserved, created)


def _left(run: RunningRun, now: datetime) -> float:
    """Return the milliseconds that are left of a claim's lease: none, when it is for the database to recover it."""
    return max(0.0, (run.lease_until - now).total_seconds() * 1000)


class QueueMonitor:
    """Looks after the queue: notices when it is away, rebuilds it when it was lost, and fills in what it missed.

    `fill` tells the queue its pools, for a rebuild. `claim` says that the queue is in use by this database, and raises
    QueueTaken when it is by another. An outage makes two lines in the log, however long it is.
    """

    def __init__(
        self,
        store: Store,
        queue: FailsafeQueue,
        *,
        fill: Callable[[], None],
        placement: Placement,
        owner: str,
        claim: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._queue = queue
        self._fill = fill
        self._placement = placement
        self._owner = owner
        self._claim = claim
        self._clock = clock
        self._since: float | None = None
        self._claim_at = -math.inf
        self._unfinished = False
        self.process = Loop("queue", self.step)
        queue.on_trouble = self.process.wake

    def open(self) -> None:
        """Find out how the queue is before anything else asks it: an empty one is rebuilt now, if it can be.

        Raises QueueTaken.
        """
        try:
            self._queue.look(self._keep)
        except QueueLost:
            self.step()
        except QueueTaken:
            raise
        except QueueUnavailable:
            self.process.wake()

    def step(self) -> float:
        """Look whether the queue is well, try to mend what is not, and return the seconds until the next look."""
        if self._queue.away is None:
            self._look()
        trouble = self._queue.away
        if trouble is not None:
            self._begin(trouble)
            try:
                self._mend()
            except (QueueLost, QueueUnavailable) as error:
                log.debug("the queue: %s", error)
        if self._queue.away is not None:
            return PROBE
        self._end()
        return max(0.0, self._look_at() - self._clock())

    def _look(self) -> None:
        if self._look_at() <= self._clock():
            with suppress(QueueLost, QueueUnavailable):
                self._queue.look(self._keep)

    def _look_at(self) -> float:
        return min(self._claim_at, self._queue.answered_at + LOOK)

    def _keep(self) -> None:
        """Claim the queue when that is due, and whenever it may have changed hands."""
        now = self._clock()
        if self._claim_at <= now or self._queue.away is not None:
            self._claim()
            self._claim_at = now + CLAIM

    def _mend(self) -> None:
        if self._unfinished or self._is_lost():
            self._unfinished = True  # until it has been: whatever ends it half-way, this process begins it anew
            rebuilt = self._rebuilt()
            self._unfinished = False
            if not rebuilt:
                raise QueueLost("another process fills it")
            log.info("the queue was empty and has been filled from the database")
        self._queue.within.renew("", {"": ""}, 1)  # raises while another process fills it
        self._queue.back()
        refill(self._store, self._queue, self._placement)

    def _is_lost(self) -> bool:
        try:
            self._queue.look(self._keep)
        except QueueLost:
            return True
        return False

    def _rebuilt(self) -> bool:
        return rebuild(self._store, self._queue.within, fill=self._fill, placement=self._placement, owner=self._owner)

    def _begin(self, trouble: Exception) -> None:
        if self._since is None and isinstance(trouble, QueueUnavailable):  # an empty one was not away
            self._since = self._clock()
            log.warning("the queue is away, what is due starts when it is back: %s", trouble)

    def _end(self) -> None:
        since, self._since = self._since, None
        if since is not None:
            log.info("the queue is in use again after %.1f s", self._clock() - since)
