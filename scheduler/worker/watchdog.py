"""Supervises running attempts: time limits, leases, and requested cancels."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta

from duetime.scheduler.queue import DispatchQueue, QueueLost, QueueUnavailable
from duetime.scheduler.runtime.interrupt import CancelRequested, Interrupt, ReservationLost, TimeLimitReached
from duetime.scheduler.runtime.loop import Loop
from duetime.scheduler.runtime.notices import ProcessKilled, ReservationGone
from duetime.scheduler.store import Store
from duetime.scheduler.worker.active_runs import ActiveRun, ActiveRuns

CANCEL_CHECK_INTERVAL_S = 0.2
"""Minimum seconds between two looks for requested cancels when other processes report changes."""

QUEUE_RETRY_INTERVAL_S = 1.0
"""Seconds until a queue that is away is called again."""

TIME_LIMIT_GRACE_S = 5.0
"""Seconds that a handler has to stop after its time limit; then its attempt ends without it."""

log = logging.getLogger(__name__)


class Watchdog:
    """Renews the leases of running attempts every third of a lease; `check` makes it look for requested cancels only.

    A handler that does not stop in the grace period after its time limit is passed to `abandon`.

    A run whose reservation the queue does not know goes back; an outage of the queue stops nothing.

    While nothing runs, the thread sleeps.
    """

    def __init__(
        self,
        store: Store,
        queue: DispatchQueue,
        active_runs: ActiveRuns,
        *,
        worker: str,
        lease: timedelta,
        abandon: Callable[[ActiveRun], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._queue = queue
        self._active_runs = active_runs
        self._worker = worker
        self._lease = lease
        self._abandon = abandon
        self._clock = clock
        self._lock = threading.Lock()
        self._asleep = True
        self._next_limit: float | None = None
        self._last_renewal = self._last_look = clock()
        self._check_requested = False
        self._queue_away = False
        self.loop = Loop("supervision", self.step)

    def started(self, held: ActiveRun, time_limit: timedelta) -> None:
        """Start the time limit of an attempt."""
        with self._lock:
            held.ends_by = self._clock() + time_limit.total_seconds()
            if self._asleep:  # nothing ran before, so no lease needed a renewal
                self._asleep, self._last_renewal = False, self._clock()
            self._wake_by(held.ends_by)

    def check(self) -> None:
        """Look soon for requested cancels."""
        self._check_requested = True
        self.loop.wake()

    def step(self) -> float | None:
        """Do what is due and return the seconds until the next step."""
        if self._falls_asleep():
            return None
        self._enforce_limits()
        if self._next_renewal() <= self._clock():
            self._renew()
        elif self._check_requested and self._last_look + CANCEL_CHECK_INTERVAL_S <= self._clock():
            self._look()
        due = [self._next_renewal()]
        if self._next_limit is not None:
            due.append(self._next_limit)
        if self._check_requested:
            due.append(self._last_look + CANCEL_CHECK_INTERVAL_S)
        return max(0.0, min(due) - self._clock())

    def _falls_asleep(self) -> bool:
        with self._lock:
            self._asleep = not len(self._active_runs)
            if self._asleep:
                self._check_requested, self._next_limit = False, None
            return self._asleep

    def _wake_by(self, at: float) -> None:
        """Wake the loop at `at` at the latest; the caller holds the lock."""
        if self._next_limit is None or at < self._next_limit:
            self._next_limit = at
            self.loop.wake()

    def _next_renewal(self) -> float:
        interval = self._lease.total_seconds() / 3
        if self._queue_away:
            interval = min(interval, QUEUE_RETRY_INTERVAL_S)
        return self._last_renewal + interval

    def _enforce_limits(self) -> None:
        for held in self._active_runs.all():
            if _is_past(held.kill_at, self._clock()):
                self._kill(held)
            if _is_past(held.ends_by, self._clock()):
                self._enforce_limit(held)
        with self._lock:
            limits = [at for held in self._active_runs.all() for at in (held.ends_by, held.kill_at) if at is not None]
            self._next_limit = min(limits, default=None)

    def _enforce_limit(self, held: ActiveRun) -> None:
        """Interrupt at the time limit; a blocking call may ignore that, so the attempt ends without it later."""
        if held.unchecked is not None:  # its handler has succeeded; the check of the result has a time limit of its own
            held.ends_by = None
        elif held.timed_out:
            held.ends_by = None
            self._abandon(held)
        else:
            patience = TIME_LIMIT_GRACE_S if held.kill is None else 2 * TIME_LIMIT_GRACE_S  # the kill comes in between
            held.ends_by = self._clock() + patience
            held.timed_out = True
            self.interrupt(held, TimeLimitReached)

    def interrupt(self, held: ActiveRun, why: type[Interrupt]) -> None:
        """Interrupt a handler; if it does not stop, its process is killed."""
        held.interrupt(why)
        if held.kill is not None and not held.kill_is_planned:
            held.kill_is_planned = True
            with self._lock:
                held.kill_at = self._clock() + TIME_LIMIT_GRACE_S
                self._wake_by(held.kill_at)

    def _kill(self, held: ActiveRun) -> None:
        kill, held.kill_at = held.kill, None
        if kill is not None:
            held.notifier.noticed(ProcessKilled(held.run_id, held.action, TIME_LIMIT_GRACE_S))
            kill()

    def _look(self) -> None:
        """Stop runs with a requested cancel: changes are frequent, so this reads only, and writes nothing."""
        self._check_requested = False
        running = self._running()
        self._stop(running, self._store.claims.unwanted(list(running), worker=self._worker))

    def _renew(self) -> None:
        self._check_requested = False
        running = self._running()
        self._renew_reservations(running)
        self._stop(running, self._store.claims.renew(list(running), worker=self._worker, lease=self._lease))
        self._last_renewal = self._clock()

    def _running(self) -> dict[str, ActiveRun]:
        return {held.run_id: held for held in self._active_runs.all()}

    def _stop(self, running: Mapping[str, ActiveRun], unwanted: Collection[str]) -> None:
        for run_id in unwanted:
            self.interrupt(running[run_id], CancelRequested)
        self._last_look = self._clock()

    def _renew_reservations(self, running: Mapping[str, ActiveRun]) -> None:
        """Prolong the leases in the queue, and stop runs whose lost units another run may have now."""
        tokens = {run_id: held.claim.token for run_id, held in running.items()}
        try:
            lost = self._queue.renew(self._worker, tokens, self._lease.total_seconds() * 1000)
        except (QueueLost, QueueUnavailable) as error:
            log.debug("cannot renew leases in the queue: %s", error)
            self._queue_away = True
            return
        self._queue_away = False
        for run_id in lost:
            if running[run_id].claim.reserved:
                running[run_id].notifier.noticed(ReservationGone(run_id))
                self.interrupt(running[run_id], ReservationLost)


def _is_past(at: float | None, now: float) -> bool:
    return at is not None and at <= now
