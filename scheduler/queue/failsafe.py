"""A decorator for a queue on another machine: during an outage it grants nothing, and its callers see no exception.

Results that could not be sent are kept and sent when the queue is back; whatever the queue lost is in the database.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from duetime.scheduler.ids import new_id
from duetime.scheduler.queue import (
    Cancelled,
    DispatchQueue,
    Entry,
    Explanation,
    Finish,
    QueueChange,
    QueueLost,
    QueueUnavailable,
    Stats,
    Take,
    ThreadUse,
)
from duetime.scheduler.queue.lanes import KnownActions
from duetime.scheduler.rules.limits.admission import Limits
from duetime.scheduler.rules.shares import TIER_COUNT, Shares

MAX_ENDINGS_OWED = 10_000
"""Results that are kept while the queue is away; older ones are dropped, and their leases expire."""


class FailsafeQueue:
    """A `DispatchQueue` over one that may be lost or unreachable: most calls swallow these errors.

    The first call that fails makes it `away` and calls `on_trouble`; until `back`, calls return at once without a try.
    The questions (`stats`, `explain`), `renew`, `set_pool`, `set_shares` and the steps of a rebuild do raise
    `QueueLost` and `QueueUnavailable`.
    """

    def __init__(self, queue: DispatchQueue, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.within = queue
        self.away: Exception | None = None
        self.answered_at = -math.inf
        """When it last proved to be well, by `clock`."""
        self.on_trouble: Callable[[], None] = lambda: None
        """Called when it becomes `away`, on the thread of the call that failed."""
        self._clock = clock
        self._owed: deque[Callable[[], object]] = deque(maxlen=MAX_ENDINGS_OWED)
        self._unanswered = ""
        self._changed = threading.Condition()
        self._waking = 0

    # -- outages

    def back(self) -> None:
        """Resume calls, and send the results that were kept. The queue may be away again when this returns."""
        with self._changed:
            self.away = None
            self.answered_at = self._clock()
            self._changed.notify_all()
        for _ in range(len(self._owed)):
            self._send_or_keep(self._owed.popleft())

    @contextmanager
    def _noticing(self) -> Iterator[None]:
        """Ignore a failed call; the database still has its effect."""
        with suppress(QueueLost, QueueUnavailable), self._asking():
            yield

    @contextmanager
    def _asking(self) -> Iterator[None]:
        began = self._clock()
        try:
            yield
            self.answered_at = max(self.answered_at, began)
        except (QueueLost, QueueUnavailable) as error:
            self.report(error)
            raise

    def report(self, trouble: QueueLost | QueueUnavailable) -> None:
        """Be away because of this trouble, until `back`."""
        with self._changed:
            first, self.away = self.away is None, trouble
        if first:
            self.on_trouble()

    def _send_or_keep(self, call: Callable[[], object]) -> None:
        """Send a result now, or keep it until the queue is back."""
        while not self._kept(call):
            with self._noticing():
                call()
                return

    def _kept(self, call: Callable[[], object]) -> bool:
        """Keep a result if the queue is away: one decision with that of `back`, which sends what is kept."""
        with self._changed:
            if self.away is not None:
                self._owed.append(call)
            return self.away is not None

    def look(self, claim: Callable[[], None]) -> None:
        """Probe the queue, also while it is away; calls `claim` first.

        Raises QueueLost and QueueUnavailable.
        """
        with self._asking():
            claim()
            self.within.explain("")  # the cheapest question, whatever the queue holds

    # -- calls of processes

    def put(self, entries: Sequence[Entry]) -> int:
        added = 0
        if self.away is None:
            with self._noticing():
                added = self.within.put(entries)
        return added

    def take(
        self,
        worker: str,
        n: int,
        lease: float,
        *,
        nonce: str = "",
        threads: ThreadUse | None = None,
        after: QueueChange | None = None,
        actions: KnownActions = None,
        record: bool = False,
    ) -> Take:
        """Take as the queue does. After a lost reply the next take repeats its nonce, and so gets the same grants."""
        taken = Take()
        if after is not None and self.away is not None:
            self.wait(after.generation, after.timeout, actions=actions or ())
            after = None
        if self.away is None:
            # Kept before the call, cleared after the reply: the next take repeats a nonce without a reply.
            nonce = self._unanswered or nonce or new_id("n")
            with self._noticing():
                self._unanswered = nonce
                taken = self.within.take(
                    worker, n, lease, nonce=nonce, threads=threads, after=after, actions=actions, record=record
                )
                self._unanswered = ""
        return taken

    def assign_preemptors(
        self,
        worker: str,
        n: int,
        tiers: tuple[int, int],
        notice: float,
        *,
        threads: ThreadUse | None = None,
        actions: KnownActions = None,
    ) -> tuple[int, ...]:
        found: tuple[int, ...] = ()
        if self.away is None:
            with self._noticing():
                found = self.within.assign_preemptors(worker, n, tiers, notice, threads=threads, actions=actions)
        return found

    def runs_to_preempt(self, willing: Sequence[str], notice: float) -> tuple[str, ...]:
        found: tuple[str, ...] = ()
        if self.away is None:
            with self._noticing():
                found = self.within.runs_to_preempt(willing, notice)
        return found

    def wait(self, generation: int, timeout: float, *, tier: int = TIER_COUNT, actions: Collection[str] = ()) -> None:
        ends, woken = time.monotonic() + timeout, self._waking
        if self.away is None:
            with self._noticing():
                self.within.wait(generation, timeout, tier=tier, actions=actions)
                return
        with self._changed:
            self._changed.wait_for(lambda: self.away is None or self._waking != woken, ends - time.monotonic())

    def wake(self) -> None:
        with self._changed:
            self._waking += 1
            self._changed.notify_all()
        with self._noticing():
            self.within.wake()

    def renew(self, worker: str, tokens: Mapping[str, str], lease: float) -> set[str]:
        """Prolong leases. Raises while the queue is away: without a reply no lease is proved held or lost."""
        if self.away is not None:
            raise self.away
        with self._asking():
            return self.within.renew(worker, tokens, lease)

    def finish(self, worker: str, ended: Sequence[Finish], *, jitter: float = 0.0) -> set[str]:
        unheld: set[str] = set()
        self._send_or_keep(lambda: unheld.update(self.within.finish(worker, ended, jitter=jitter)))
        return unheld

    def give_back(self, worker: str, run_id: str, token: str, *, delay: float = 0) -> bool:
        held: list[bool] = []
        self._send_or_keep(lambda: held.append(self.within.give_back(worker, run_id, token, delay=delay)))
        return any(held)

    def reap(self) -> list[str]:
        reaped: list[str] = []
        if self.away is None:
            with self._noticing():
                reaped = self.within.reap()
        return reaped

    def cancel(self, run_id: str) -> Cancelled:
        found = Cancelled.ABSENT
        if self.away is None:
            with self._noticing():
                found = self.within.cancel(run_id)
        return found

    def rescore(self, run_id: str, key: float) -> bool:
        done = False
        if self.away is None:
            with self._noticing():
                done = self.within.rescore(run_id, key)
        return done

    # -- questions, and the steps of a rebuild

    def set_pool(self, name: str, limits: Limits | None, *, spent: float = 0.0, empty: bool = False) -> None:
        with self._asking():
            self.within.set_pool(name, limits, spent=spent, empty=empty)

    def set_shares(self, shares: Shares, version: int) -> None:
        with self._asking():
            self.within.set_shares(shares, version)

    def stats(self) -> Stats:
        with self._asking():
            return self.within.stats()

    def explain(self, run_id: str) -> Explanation | None:
        with self._asking():
            return self.within.explain(run_id)

    def begin_rebuild(self, owner: str, *, damage: str = "") -> bool:
        return self.within.begin_rebuild(owner, damage=damage)

    def adopt(self, worker: str, entry: Entry, token: str, lease: float) -> bool:
        return self.within.adopt(worker, entry, token, lease)

    def end_rebuild(self, owner: str) -> bool:
        return self.within.end_rebuild(owner)
