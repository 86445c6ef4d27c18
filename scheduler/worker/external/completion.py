"""Settles attempts of workers elsewhere by the completer that local attempts have, and waits for each to be stored."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.queue.remote import RemoteQueue
from duetime.scheduler.rules.settlement import AttemptResult
from duetime.scheduler.run_records import Claim
from duetime.scheduler.runtime.notifier import RunNotifier
from duetime.scheduler.store import Store
from duetime.scheduler.worker.active_runs import ActiveRun
from duetime.scheduler.worker.completer import DRAW_FRACTION, BatchCompleter, CompletedRun
from duetime.scheduler.worker.usage import AttemptUsage, Durations

MAX_SETTLEMENT_WAIT_S: Final = 20.0
"""Seconds that a call waits for its settlement to be stored; it is stored later all the same."""

CLOSE_GRACE_S: Final = 2.0


class _Pending:
    """A settlement that a call waits for; `done` once it is known whether it was stored."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.stored = False


class ExternalCompletion:
    """Settles attempts, releases what they reserved, and notifies of them; its thread begins with the first one."""

    def __init__(self, store: Store, queue: RemoteQueue, notifier: RunNotifier, settled: Callable[[], None]) -> None:
        self._store = store
        self._queue = queue
        self._notifier = notifier
        self._settled = settled
        self._durations = Durations(store.estimates.add)
        self._lock = threading.Lock()
        self._completer: BatchCompleter | None = None
        self._closed = False
        self._pending: dict[int, _Pending] = {}

    def settle(self, attempt: ActiveRun, result: AttemptResult) -> bool:
        """Settle an attempt; return whether this result was stored, and not an earlier end of the same attempt.

        Raises StoreUnavailable when that is not known in time.
        """
        [stored] = self.settle_all([(attempt, result)])
        return stored

    def settle_all(self, ends: Sequence[tuple[ActiveRun, AttemptResult]]) -> list[bool]:
        """Settle attempts together, each as `settle` does."""
        pending = [_Pending() for _ in ends]
        with self._lock:
            self._pending |= {id(attempt): each for (attempt, _), each in zip(ends, pending, strict=True)}
        try:
            for attempt, result in ends:
                self.settle_later(attempt, result)
            until = time.monotonic() + MAX_SETTLEMENT_WAIT_S
            if not all(each.done.wait(max(0.0, until - time.monotonic())) for each in pending):
                raise StoreUnavailable("the database does not answer: repeat the same finish_run, it counts once")
        finally:
            with self._lock:
                for attempt, _ in ends:
                    self._pending.pop(id(attempt), None)
        return [each.stored for each in pending]

    def settle_later(self, attempt: ActiveRun, result: AttemptResult) -> None:
        """Settle an attempt once the database takes it. Raises StoreUnavailable where this process ends."""
        with self._lock:
            if self._closed:
                raise StoreUnavailable(
                    "this process ends: repeat the same call, another one or its next start takes it"
                )
            completer = self._started()
        completer.hand_in(attempt, result, wait=False)

    def close(self) -> None:
        """Store what is pending, for a moment, and end; whoever still waits is answered."""
        with self._lock:
            self._closed, completer = True, self._completer
        if completer is not None:
            completer.close(CLOSE_GRACE_S)
        with self._lock:
            for pending in self._pending.values():
                pending.done.set()

    def _started(self) -> BatchCompleter:
        if self._completer is None:
            self._completer = BatchCompleter(self._store, on_settled=self._finish, notifier=self._notifier)
            self._completer.start()
        return self._completer

    def _finish(self, ended: Sequence[CompletedRun]) -> None:
        for each in ended:
            self._release(each)
        self._notifier.settled([each.settlement for each in ended if each.stored])
        self._notifier.changed([each.held.claim.task.id for each in ended])
        self._settled()
        with self._lock:
            known = [(self._pending.get(id(each.held)), each.stored) for each in ended]
        for pending, stored in known:
            if pending is not None:
                pending.stored = stored
                pending.done.set()
        self._durations.flush()

    def _release(self, each: CompletedRun) -> None:
        held, end = each.held, each.settlement
        if not each.stored:
            return  # the end that was stored has released it
        finish = held.usage.finish(held.run_id, held.claim.token, end.outcome)
        self._queue.finish(held.claim.worker, finish, jitter=DRAW_FRACTION())
        self._durations.add(held.claim.run.tenant, held.action, held.usage, end)


def attempt_of(claim: Claim, began: datetime, now: datetime, notifier: RunNotifier) -> ActiveRun:
    """Return a claim as its completer settles it: its worker elsewhere had it from `began` until now."""
    held = ActiveRun(claim, trace=notifier.tracing.reported(claim, began), notifier=notifier)
    times = iter((began.timestamp(), max(began, now).timestamp()))
    held.usage = AttemptUsage(claim.reserved, clock=times.__next__, taken_at=began.timestamp())
    held.usage.begin()
    held.usage.end()
    return held
