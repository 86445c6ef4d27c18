"""Starts for workers elsewhere that the database did not answer: which of them are stored after all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import NamedTuple

from duetime.scheduler.run_records import Claim, Start
from duetime.scheduler.store import Store


class _Unanswered(NamedTuple):
    """A start without an answer, and until when it may be stored, in monotonic seconds."""

    start: Start
    worker: str
    until: float


class UnansweredStarts:
    """Starts that no worker has learned of. A late one waits for a lock, so each is looked for until its lease is over.

    Thread-safe.
    """

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._known: list[_Unanswered] = []

    def add(self, starts: Sequence[Start], worker: str, lease: timedelta) -> None:
        until = self._clock() + lease.total_seconds()
        with self._lock:
            self._known += [_Unanswered(start, worker, until) for start in starts]

    def stored(self) -> list[Claim]:
        """Return the claims of those that are stored now, each once."""
        with self._lock:
            known = list(self._known)
        claims: list[Claim] = []
        for worker in dict.fromkeys(each.worker for each in known):
            starts = [each.start for each in known if each.worker == worker]
            claims += self._store.claims.stored_starts(starts, worker=worker)
        now, tokens = self._clock(), {claim.token for claim in claims}
        with self._lock:
            self._known = [each for each in self._known if each.start.token not in tokens and each.until > now]
        return claims
