"""For how many runs there is room: threads that have nothing to do, and those that soon will."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable

BRIEF = 0.002
"""Seconds below which runs are brief, on average: as long as a claim takes."""

JUDGED = 16
"""Runs that are judged, before more are claimed than threads are idle."""

MOST_LONG = 4
"""How many of those may have been long: they hold up their own threads only, and a busy machine stretches a few."""

AHEAD = 16
"""Runs for each thread that are claimed ahead while runs are brief: one claim of 64 costs a third of eight of 8."""

SOON = 0.01
"""Seconds within which threads come back soon."""

GATHERING = 0.001
"""Seconds without another thread that comes back until those that did get new runs, while they come back soon."""


class ThreadCapacity:
    """Counts the worker threads, `total`, and for how many runs there is room: one for each that has nothing to do.

    While runs are brief there is room for a few more, which wait for their thread for less time than it takes to claim
    them: a claim of many runs costs little more than one of few.
    """

    def __init__(self, threads: int) -> None:
        self.total = threads
        self.out = 0
        """How many runs were handed out and have not come back."""
        self._ahead = 0
        self._recent: deque[float] = deque([math.inf], maxlen=JUDGED)
        self._changed = threading.Condition()
        self._handed_out_at = 0.0
        self._wake_above = math.inf
        self._call_above = math.inf
        self._call: Callable[[], object] = int

    @property
    def brief(self) -> bool:
        """Whether there is room for more runs than threads, since they are brief."""
        return self._ahead > 0

    @property
    def behind(self) -> bool:
        """Whether runs were handed out for which no thread was free yet."""
        return self.out > self.total

    def busy(self, beside: int = 0) -> int:
        """Return how many threads have a run, leaving out so many places that were counted as out for more."""
        return max(0, min(self.total, self.out - beside))

    def took(self, seconds: float | None, *, alone: bool) -> None:
        """Hear how long a run kept its thread, and whether it did so `alone`, without anything reserved."""
        with self._changed:
            self._recent.append(seconds if alone and seconds is not None else math.inf)

    def forget(self) -> None:
        """Take nothing for granted any more: there was nothing to run, and what comes next may be of another kind."""
        self.took(None, alone=True)

    def take_all(self, timeout: float) -> int:
        """Return for how many there is room, and count them as out; waits for some, 0 after `timeout` seconds.

        While threads come back soon it waits a moment for more of them.
        """
        with self._changed:
            self._ahead = AHEAD * self.total if self.out > 0 and self._are_brief() else 0
            self._changed.wait_for(self._enough, timeout)
            if not self._enough():
                return 0
            if not self._ahead and time.monotonic() - self._handed_out_at < SOON:
                self._gather()
            taken = self._room()
            self.out += taken
            return taken

    def add(self, threads: int) -> None:
        """Count threads that are new, and idle."""
        with self._changed:
            self.total += threads
            self._changed.notify()

    def give(self, threads: int) -> None:
        self._returned(threads)
        if self._room() > self._call_above:
            self._call_above = math.inf
            self._call()

    def call_when_more(self, than: int, call: Callable[[], object]) -> None:
        """Call once there is room for more than so many, at once if there is."""
        with self._changed:
            self._call, self._call_above = call, than
        self.give(0)

    def _returned(self, threads: int) -> None:
        with self._changed:
            enough, self.out = self._enough(), self.out - threads
            if (not enough and self._enough()) or self.out <= 0 or self._room() > self._wake_above:
                self._changed.notify()  # whoever gathers looks by itself for what comes in between

    def count_out(self, threads: int) -> None:
        """Count threads that `give` will be called for, though they were given before."""
        with self._changed:
            self.out += threads

    def wait_for_more(self, than: int, timeout: float) -> None:
        """Return when there is room for more than so many, after `timeout` seconds at most, and when woken."""
        with self._changed:
            if self._room() <= than:
                self._wake_above = than
                self._changed.wait(timeout)
                self._wake_above = math.inf

    def wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def give_back(self, threads: int) -> None:
        """Give those for which there was no run; the others begin theirs now."""
        self._handed_out_at = time.monotonic()
        self.give(threads)

    def _are_brief(self) -> bool:
        recent = sorted(self._recent)
        counted = recent[: JUDGED - MOST_LONG]
        return recent[-1] < math.inf and sum(counted) < BRIEF * len(counted)

    def _room(self) -> int:
        return self.total + self._ahead - self.out

    def _enough(self) -> bool:
        """Whether taking is worth it: ahead of the threads, only half of what may be out or more."""
        return self._room() > self._ahead // 2

    def _gather(self) -> None:
        known = 0
        while known < self._room() < self.total:
            known = self._room()
            self._changed.wait(GATHERING)
