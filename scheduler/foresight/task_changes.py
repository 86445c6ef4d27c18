"""Changes of tasks, for callers that wait for one: those of this process at once, of others by a look at the events.

One look a second serves all who wait in a process, and while no caller waits, no process looks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from duetime.scheduler.runtime.event_tail import EventLog, EventTail

Wake = Callable[[], None]


class TaskChanges:
    """Thread-safe. A waiting thread calls `look` each second; most calls find that another one has looked just now."""

    def __init__(self, events: EventLog, clock: Callable[[], float] = time.monotonic) -> None:
        self._tail = EventTail("waits", lambda: events, clock=clock)
        self._waiting: dict[str, list[Wake]] = {}
        self._lock = threading.Lock()
        self._looking = threading.Lock()

    @contextmanager
    def of(self, task_id: str, wake: Wake) -> Iterator[None]:
        """Call `wake` whenever the task has changed, while the block runs. Reads the database if none waits yet."""
        with self._lock:
            self._waiting.setdefault(task_id, []).append(wake)
        try:
            with self._looking:
                if self._tail.place is None:
                    self._tail.begin(self._tail.newest())
            yield
        finally:
            self._leave(task_id, wake)

    def _leave(self, task_id: str, wake: Wake) -> None:
        with self._lock:
            self._waiting[task_id].remove(wake)
            if not self._waiting[task_id]:
                del self._waiting[task_id]
            if not self._waiting:
                self._tail.end()

    def touched(self, task_ids: Iterable[str]) -> None:
        """Wake the threads that wait for one of these tasks."""
        if not self._waiting:
            return
        with self._lock:
            woken = [wake for task_id in set(task_ids) for wake in self._waiting.get(task_id, ())]
        for wake in woken:
            wake()

    def look(self) -> None:
        """Look at the newest events, unless somebody has within the last second or does just now.

        A failure is logged, and the next look repeats it.
        """
        if not self._looking.acquire(blocking=False):
            return
        try:
            if self._tail.place is not None and not self._tail.seconds_left():
                self._look()
        finally:
            self._looking.release()

    def _look(self) -> None:
        with self._tail.survived():
            page = self._tail.read()
            with self._tail.delivery(page):
                self.touched(event.task_id for event in page.events)
