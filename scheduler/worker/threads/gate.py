"""Keeps the headroom of threads free of runs that were claimed ahead of their threads.

Runs claimed for idle threads respect the headroom already, because the queue grants no others. Runs claimed ahead wait
in one line for all threads, so a thread that gets one checks whether it may start it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from duetime.scheduler.rules.headroom import Headroom, may_start
from duetime.scheduler.worker.active_runs import ActiveRun
from duetime.scheduler.worker.capacity import ThreadCapacity


class ThreadGate:
    """Lets threads start runs. A run that would use the headroom is set aside for the next thread that becomes free."""

    def __init__(self, idle: ThreadCapacity, headroom: Callable[[], Headroom]) -> None:
        self._idle = idle
        self._headroom = headroom
        self._running: set[ActiveRun] = set()
        self._aside: deque[ActiveRun] = deque()
        self._lock = threading.Lock()

    def run(self, held: ActiveRun, run: Callable[[ActiveRun], bool]) -> None:
        """Run a claim that has begun, then the claims set aside; or set it aside.

        `run` returns whether its thread may go on with another run.
        """
        following: ActiveRun | None = held
        if not self._enter(held):
            self._idle.count_out(1)  # its message is done, the run is not
            return
        while following is not None:
            current = following
            following = self._leave(current, go_on=run(current))

    def clear(self) -> None:
        """Forget the runs set aside, which were handed back."""
        with self._lock:
            cleared = len(self._aside)
            self._aside.clear()
        self._idle.give(cleared)

    def _enter(self, held: ActiveRun) -> bool:
        with self._lock:
            if self._idle.behind and not self._fits(held):
                held.put_back()
                self._aside.append(held)
                return False
            self._running.add(held)
            return True

    def _leave(self, held: ActiveRun, *, go_on: bool) -> ActiveRun | None:
        """Return a run set aside that this thread starts now."""
        with self._lock:
            self._running.discard(held)
            while go_on and (found := next(filter(self._fits, self._aside), None)) is not None:
                self._aside.remove(found)
                self._idle.give(1)  # for the ended run, or for the one set aside, if it was handed back since
                if found.begin():
                    self._running.add(found)
                    return found
            return None

    def _fits(self, held: ActiveRun) -> bool:
        running = sum(not each.ended for each in self._running)
        return may_start(self._headroom(), held.claim.task.priority.rank, self._idle.total - running)
