"""Rebuilds a lost queue from the database, and monitors a queue that may be away."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from duetime.scheduler.dispatch.placement import Placement
from duetime.scheduler.queue import DispatchQueue, Entry, QueueDamaged, QueueLost, QueueTaken, QueueUnavailable
from duetime.scheduler.queue.constants import MIN_DAMAGE_INTERVAL_MS
from duetime.scheduler.queue.failsafe import FailsafeQueue
from duetime.scheduler.run_records import ReadyRun, RunningRun
from duetime.scheduler.runtime.loop import Loop
from duetime.scheduler.runtime.notices import QueueLeft, QueueRebuilt, QueueRefilled, QueueReturned
from duetime.scheduler.runtime.notifier import RunNotifier
from duetime.scheduler.store import Store

RUNNING_PAGE_ROWS = 1000
"""Running runs per page."""

MAX_FILL_S = 10.0
"""Seconds for which a rebuild puts ready runs: workers are idle until then, and a rebuild expires after 30 s."""

QUEUE_PROBE_INTERVAL_S = 0.5
"""Seconds between two probes of a queue that is away, or that another process rebuilds."""

IDLE_PROBE_DELAY_S = 2.2
"""Idle servers never call Redis, so probe it after 2.2 s of silence.

An idle worker calls it for runs every two seconds.
"""

QUEUE_CLAIM_INTERVAL_S = 5.0
"""Seconds between two claims of a healthy queue."""

MAX_TIME_TO_QUEUE = timedelta(seconds=10)
"""Time from the commit that makes a run ready until its process has put it into the queue, on a busy machine."""

READY_PAGE_ROWS = 5000
"""Ready runs per page: each page scans all of them, so there should be few pages."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Refilled:
    """Result of a refill: runs that were not in the queue, and how many of these the queue has certainly lost."""

    added: int = 0
    lost: int = 0


def refill(
    store: Store,
    queue: DispatchQueue,
    placement: Placement = Placement(),  # noqa: B008 - a frozen value
    *,
    enough: Callable[[], bool] = lambda: False,
    on_page: Callable[[Sequence[ReadyRun]], None] = lambda _: None,
) -> Refilled:
    """Put every ready run into the queue, at a start and periodically; what is there stays.

    `on_page` is called with each page; then `enough` may end the refill.
    """
    added, lost, after = 0, 0, None
    while page := store.claims.ready(limit=READY_PAGE_ROWS, after=after):
        now = store.now()
        old = [run for run in page if run.first_ready_at <= now - MAX_TIME_TO_QUEUE]
        new = [run for run in page if run.first_ready_at > now - MAX_TIME_TO_QUEUE]
        missing = queue.put(placement.entries(old, now))
        added += missing + queue.put(placement.entries(new, now))
        lost += _lost(store, old, missing) if missing else 0
        on_page(page)
        after = page[-1].run_id
        if enough():
            break
    return Refilled(added, lost)


def _lost(store: Store, runs: Sequence[ReadyRun], missing: int) -> int:
    """Return how many of the `missing` runs were lost, at least.

    Others have started since they were read, or come back for another attempt and are on their way into the queue.
    """
    waiting = store.claims.never_started([run.run_id for run in runs])
    return max(0, missing - (len(runs) - waiting))


def rebuild(
    store: Store,
    queue: DispatchQueue,
    *,
    fill: Callable[[], None],
    placement: Placement,
    owner: str,
    damage: str = "",
    clock: Callable[[], float] = time.monotonic,
) -> bool:
    """Fill an empty queue: its pools by `fill`, then running runs with their reservations, then ready runs.

    Ready runs that do not fit into ten seconds are left to a `refill`, while the queue already grants runs. Returns
    False when another process rebuilds or has taken over, or has just repaired the same `damage`. Exceptions of queue
    and store pass through; then the same `owner` may call again at once, and others half a minute after the begin.
    """
    if not queue.begin_rebuild(owner, damage=damage):
        return False
    until = clock() + MAX_FILL_S
    fill()
    adopt_running(store, queue, placement)
    refill(store, queue, placement, enough=lambda: clock() >= until)
    return queue.end_rebuild(owner)


def adopt_running(store: Store, queue: DispatchQueue, placement: Placement) -> None:
    """Lease again, with what they reserved, the runs that the store has as running."""
    after = None
    while page := store.claims.running(limit=RUNNING_PAGE_ROWS, after=after):
        for run in page:
            queue.adopt(run.worker, _entry(run, placement), run.token, _lease_left_ms(run, store.now()))
        after = page[-1].run_id


def _entry(run: RunningRun, placement: Placement) -> Entry:
    created, action = run.created_at.timestamp() * 1000, placement.queued_action(run.action, run.tenant)
    return Entry(run.run_id, created, run.tier.rank, run.reserved, created, action=action)


def _lease_left_ms(run: RunningRun, now: datetime) -> float:
    """Return the milliseconds left of a claim's lease, 0 when it has expired and the store must recover the run."""
    return max(0.0, (run.lease_until - now).total_seconds() * 1000)


@dataclass(frozen=True, slots=True)
class Damage:
    """Why the queue was damaged, and when it was refilled because of that."""

    why: str
    at: datetime


class QueueMonitor:
    """Monitors the queue: detects an outage, rebuilds a lost or damaged queue, and refills what it missed.

    `fill` publishes the pools for a rebuild. `claim` marks the queue as used by this database, and raises QueueTaken
    when another one uses it. An outage of any length makes two notices.
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
        notifier: RunNotifier = RunNotifier(),  # noqa: B008 - a frozen value
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._queue = queue
        self._fill = fill
        self._placement = placement
        self._owner = owner
        self._claim = claim
        self._notifier = notifier
        self._clock = clock
        self._since: float | None = None
        self._claim_at = -math.inf
        self._unfinished = False
        self._heal_at = -math.inf
        self.damage: Damage | None = None
        """The last damage for which this process refilled the queue."""
        self.loop = Loop("queue", self.step)
        queue.on_trouble = self.loop.wake

    def open(self) -> None:
        """Probe the queue before its first use, and rebuild an empty one if possible.

        Raises QueueTaken.
        """
        try:
            self._queue.look(self._claim_when_due)
        except QueueLost:
            self.step()
        except QueueTaken:
            raise
        except QueueUnavailable:
            self.loop.wake()

    def step(self) -> float:
        """Probe the queue, repair it if needed, and return the seconds until the next step."""
        if self._queue.away is None:
            self._look()
        trouble = self._queue.away
        if trouble is not None:
            self._begin(trouble)
            try:
                self._repair()
            except (QueueLost, QueueUnavailable) as error:
                log.debug("the queue: %s", error)
        if self._queue.away is not None:
            return QUEUE_PROBE_INTERVAL_S
        self._end()
        return max(0.0, self._look_at() - self._clock())

    def _look(self) -> None:
        if self._look_at() <= self._clock():
            with suppress(QueueLost, QueueUnavailable):
                self._queue.look(self._claim_when_due)

    def _look_at(self) -> float:
        return min(self._claim_at, self._queue.answered_at + IDLE_PROBE_DELAY_S)

    def _claim_when_due(self) -> None:
        """Claim the queue when that is due, and whenever its owner may have changed."""
        now = self._clock()
        if self._claim_at <= now or self._queue.away is not None:
            self._claim()
            self._claim_at = now + QUEUE_CLAIM_INTERVAL_S

    def _repair(self) -> None:
        damage = self._found_damage()
        if self._unfinished or damage or self._is_lost():
            self._unfinished = True  # cleared at the end: after any failure this process begins again
            rebuilt = self._rebuilt(damage)
            self._unfinished = False
            if rebuilt:
                self._note_rebuild(damage)
            elif not damage:
                raise QueueLost("another process is rebuilding it")
        self._queue.within.renew("", {"": ""}, 1)  # raises while another process is rebuilding it
        self._queue.back()
        refill(self._store, self._queue, self._placement)

    def _found_damage(self) -> str:
        """Return the damage to repair now, '' for none. Raises while the last repair was too short ago."""
        trouble, now = self._queue.away, self._clock()
        if not isinstance(trouble, QueueDamaged):
            return ""
        if now < self._heal_at:
            raise trouble
        self._heal_at = now + MIN_DAMAGE_INTERVAL_MS / 1000
        return str(trouble)

    def _note_rebuild(self, damage: str) -> None:
        if not damage:
            self._notifier.noticed(QueueRebuilt())
            return
        self.damage = Damage(damage, self._store.now())
        self._notifier.noticed(QueueRefilled(damage))

    def _is_lost(self) -> bool:
        try:
            self._queue.look(self._claim_when_due)
        except QueueLost:
            return True
        return False

    def _rebuilt(self, damage: str) -> bool:
        return rebuild(
            self._store,
            self._queue.within,
            fill=self._fill,
            placement=self._placement,
            owner=self._owner,
            damage=damage,
        )

    def _begin(self, trouble: Exception) -> None:
        if self._since is None and isinstance(trouble, QueueUnavailable):  # an empty queue was not away
            self._since = self._clock()
            self._notifier.noticed(QueueLeft(trouble))

    def _end(self) -> None:
        since, self._since = self._since, None
        if since is not None:
            self._notifier.noticed(QueueReturned(self._clock() - since))
