"""Maintenance: the net under the dispatcher. Whatever the queue has lost, the database still has."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta

from duetime.scheduler.dispatch.dispatcher import refill
from duetime.scheduler.dispatch.new_keys import NewKeys
from duetime.scheduler.dispatch.placement import Placement
from duetime.scheduler.ids import runs_words
from duetime.scheduler.queue import DispatchQueue, Finish, QueueLost, QueueUnavailable
from duetime.scheduler.rules.settlement import concluded
from duetime.scheduler.runtime.loop import Loop
from duetime.scheduler.store import Store

INTERVAL = 30.0
LEASE_INTERVAL = 3.0
"""Seconds between two looks for leases that are over: with a lease of 30 s, work goes on 35 s after a death at most."""

LONGEST_PAUSE = 10.0
"""Seconds between two rounds after which the database was away, or this process stood still."""

UNCHANGED_FOR_S = 30.0
"""Seconds of this process for which a lapsed lease has to stand unchanged, when clocks do not agree on its end."""

SHARE = 50
"""At most one part in so many of the time goes into looking, however many runs are ready."""
FORGET_EVERY = timedelta(hours=1)
_MOST_FORGOTTEN = 500
_MOST_NOTED = 1000
"""Runs of paused tasks that one look takes out of the timers, beside those that the pause itself did."""

FOUND = "waited when this process began; they are in the queue now"
LOST = "were missing from the queue; they are in it again"
"""A queue of this process is empty when it begins; later on a run is missing because something went wrong."""

NOBODY = "nobody"
"""The worker name under which attempts of dead workers are settled."""

log = logging.getLogger(__name__)


class Maintenance:
    """Puts what is ready in the database, but not in the queue, back into it; at the start, and every 30 seconds.

    Every 3 seconds it ends attempts whose lease has passed and that are not among `held`, the runs that the worker has
    in hand: their start was stored though it seemed to fail, or their end cannot be. What they had reserved is free
    with that. When it could not look before, it does this one round later: others, who could not speak for what they
    run either, speak first. After a leap of the database's clock, which others see later, it ends only those whose
    lease nobody renews for half a minute. It also takes from the queue the leases that have run out, whoever held them;
    what had not started then goes back at once. Once an hour it forgets idempotency keys that are past their time.
    """

    def __init__(
        self,
        store: Store,
        queue: DispatchQueue,
        *,
        held: Callable[[], Collection[str]],
        placement: Placement = Placement(),  # noqa: B008 - a frozen value
        learn: Callable[[], None] = lambda: None,
        recovered: Callable[[], None] = lambda: None,
        epoch: int | None = None,
        replaced: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._queue = queue
        self._held = held
        self._placement = placement
        self._new_keys = NewKeys(store, queue, placement)
        self._learn = learn
        self._recovered = recovered
        self._epoch = epoch
        self._clock = clock
        self._looked = False
        self._look_at = clock()
        self._forget_at = store.now()
        self._ended_at = clock()
        self._could_look = True
        self._seen: datetime | None = None
        self._lapsed: dict[str, tuple[datetime, float]] = {}
        self.process = Loop("maintenance", self.step, replaced=replaced)

    def step(self) -> float:
        """Do what is due, and return the seconds until something is."""
        could_look = self._could_look and self._clock() - self._ended_at <= LONGEST_PAUSE
        self._could_look = False
        self._check_clock()
        if self._clock() >= self._look_at:
            self._look()
        self._forget()
        if could_look:
            self._recover()
        else:
            self._store.claims.next_wake()  # raises while the database is away
        self._could_look = True
        self._learn()
        if self._queue.reap():
            self._look()
        self._ended_at = self._clock()
        return max(0.0, min(LEASE_INTERVAL, self._look_at - self._clock()))

    def _check_clock(self) -> None:
        """At the start, and when the clock of this machine was set back: no retry waits until it is there again."""
        now = self._store.now()
        if self._epoch is not None and (self._seen is None or now < self._seen):
            moved = self._store.claims.retry_from_now()
            if moved:
                log.info("the clock was set back: %s wait for the next attempt from now on", runs_words(moved))
        self._seen = now

    def _look(self) -> None:
        """Look for what the queue has lost, or has by an old estimate: the longer that takes, the rarer it is."""
        began = self._clock()
        self._new_keys.begin()
        found = refill(self._store, self._queue, self._placement, on_page=self._new_keys.update)
        self._new_keys.end()
        if found:
            log.info("%d ready runs %s", found, LOST if self._looked else FOUND)
        self._store.claims.note_paused(limit=_MOST_NOTED)
        self._looked = True
        now = self._clock()
        self._look_at = now + max(INTERVAL, SHARE * (now - began))

    def _recover(self) -> None:
        before = self._store.now()  # first, so that no claim made meanwhile can look abandoned
        ended = self._store.claims.recover_lapsed(
            epoch=self._epoch,
            held=self._held(),
            before=before,
            conclude=lambda claim, settlement: concluded(claim, settlement, now=self._store.now()),
            only=self._unchanged(before) if self._store.clock_leapt() else None,
        )
        if ended:
            log.warning("%s in nobody's hand: what was running there counts as crashed", runs_words(ended))
            self._release(ended)
            self._recovered()

    def _unchanged(self, before: datetime) -> list[str]:
        """Return the runs with a lapsed lease that nobody has renewed while this process watched."""
        now = self._clock()
        seen = {run_id: (until, now) for run_id, until in self._store.claims.lapsed(before).items()}
        known = self._lapsed
        self._lapsed = {
            run_id: known[run_id] if run_id in known and known[run_id][0] == first[0] else first
            for run_id, first in seen.items()
        }
        return [run_id for run_id, (_, since) in self._lapsed.items() if now - since >= UNCHANGED_FOR_S]

    def _release(self, tokens: Mapping[str, str]) -> None:
        """Free what crashed attempts had reserved, all of it used: else it stays taken until their leases run out."""
        try:
            self._queue.finish(NOBODY, [Finish(run_id, token) for run_id, token in tokens.items() if token])
        except (QueueLost, QueueUnavailable) as error:
            log.debug("leases in the queue run out by themselves: %s", error)

    def _forget(self) -> None:
        now = self._store.now()
        if now >= self._forget_at and self._store.tasks.forget_keys(limit=_MOST_FORGOTTEN) < _MOST_FORGOTTEN:
            self._forget_at = now + FORGET_EVERY
