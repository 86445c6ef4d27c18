"""Changes of tasks, for callers that wait for one: those of this process at once, of others by a look at the events.

One look a second serves all who wait in a process, and while nobody waits, nobody looks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from duetime.scheduler.events import Event

LOOK_INTERVAL_S: Final = 1.0
"""Seconds between looks at the events of the database."""

EVENTS_PER_LOOK: Final = 500

Wake = Callable[[], None]


class EventsOfAll(Protocol):
    """The events of all tenants, oldest first."""

    def latest(self) -> int: ...

    def since(self, event_id: int, *, limit: int = 500) -> list[Event]: ...


class TaskChanges:
    """Thread-safe. A waiting thread calls `look` each second; most calls find that another one has looked just now."""

    def __init__(self, events: EventsOfAll, clock: Callable[[], float] = time.monotonic) -> None:
        self._events = events
        self._clock = clock
        self._waiting: dict[str, list[Wake]] = {}
        self._seen: int | None = None
        self._looked_at = 0.0
        self._lock = threading.Lock()
        self._looking = threading.Lock()

    @contextmanager
    def of(self, task_id: str, wake: Wake) -> Iterator[None]:
        """Call `wake` whenever the task has changed, while the block runs. Reads the database if nobody waits yet."""
        with self._lock:
            self._waiting.setdefault(task_id, []).append(wake)
        try:
            with self._looking:
                if self._seen is None:
                    self._seen, self._looked_at = self._events.latest(), self._clock()
            yield
        finally:
            self._leave(task_id, wake)

    def _leave(self, task_id: str, wake: Wake) -> None:
        with self._lock:
            self._waiting[task_id].remove(wake)
            if not self._waiting[task_id]:
                del self._waiting[task_id]
            if not self._waiting:
                self._seen = None

    def touched(self, task_ids: Iterable[str]) -> None:
        """Wake who waits for one of these tasks."""
        if not self._waiting:
            return
        with self._lock:
            woken = [wake for task_id in set(task_ids) for wake in self._waiting.get(task_id, ())]
        for wake in woken:
            wake()

    def look(self) -> None:
        """Look at the newest events, unless somebody has within the last second or does just now."""
        if not self._looking.acquire(blocking=False):
            return
        try:
            if self._seen is None or self._clock() - self._looked_at < LOOK_INTERVAL_S:
                return
            self._looked_at = self._clock()
            self.touched(self._new())
        finally:
            self._looking.release()

    def _new(self) -> Sequence[str]:
        events = self._events.since(self._seen or 0, limit=EVENTS_PER_LOOK)
        if not events:
            return ()
        self._seen = events[-1].id
        if len(events) == EVENTS_PER_LOOK:
            self._looked_at -= LOOK_INTERVAL_S  # there are more: the next call looks at once
        return [event.task_id for event in events]
