"""The number of runs that a worker can take: its idle threads, and some more while runs are brief."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable

BRIEF_RUN_S = 0.002
"""Seconds below which runs count as brief, on average: the duration of a claim."""

BRIEF_WHILE_AHEAD_S = 0.016
"""The same while more runs are claimed than threads are idle. All threads compete for the processor then, so runs take
several times as long. A claimed one waits for sixteen others: a quarter of a second at most.
"""

MIN_RUNS_JUDGED = 12
"""Runs that are measured before more runs are claimed than threads are idle: 16 threads start more at once."""

MAX_LONG_RUNS = 3
"""Long runs among these that are allowed: they block only their own threads, and a busy machine delays a few."""

MAX_RUNS_AHEAD_PER_THREAD = 16
"""Runs per thread that are claimed ahead while runs are brief: one claim of 64 costs a third of eight claims of 8."""

THREAD_RETURN_S = 0.01
"""Seconds since the last handout within which threads are expected to return soon."""

THREAD_GATHERING_S = 0.001
"""Seconds without another returning thread after which the returned ones get new runs."""


class ThreadCapacity:
    """Counts the worker threads, `total`, and the places for runs: one per idle thread.

    While runs are brief there are a few more places, since a claim of many runs costs little more than one of few.
    """

    def __init__(self, threads: int) -> None:
        self.total = threads
        self.out = 0
        """The number of runs that were handed out and have not come back."""
        self._ahead = 0
        self._were_brief = False
        self._recent: deque[float] = deque([math.inf], maxlen=MIN_RUNS_JUDGED)
        self._changed = threading.Condition()
        self._handed_out_at = 0.0
        self._wake_above = math.inf
        self._call_above = math.inf
        self._call: Callable[[], object] = int

    @property
    def brief(self) -> bool:
        """Whether runs are brief, so that there are more places than threads."""
        return self._ahead > 0

    @property
    def is_overcommitted(self) -> bool:
        """Whether more runs were handed out than threads were idle."""
        return self.out > self.total

    def busy(self, reserved: int = 0) -> int:
        """Return the number of busy threads, apart from the given number of places that are reserved for a take."""
        return max(0, min(self.total, self.out - reserved))

    def took(self, seconds: float | None, *, alone: bool) -> None:
        """Record for how many seconds a run kept its thread, and whether `alone`, with nothing reserved."""
        with self._changed:
            self._recent.append(seconds if alone and seconds is not None else math.inf)

    def forget(self) -> None:
        """Forget the measurements: the queue was empty, and the next runs may be of another kind."""
        self.took(None, alone=True)

    def take_all(self, timeout: float) -> int:
        """Reserve all free places and return their number; waits for one, and returns 0 after `timeout` seconds.

        If the last handout was a moment ago, more threads return soon, and one claim for all of them is cheaper than
        one for each. So this waits a moment more, unless it claims ahead anyway.
        """
        with self._changed:
            self._were_brief = self._are_brief()
            self._ahead = MAX_RUNS_AHEAD_PER_THREAD * self.total if self.out > 0 and self._were_brief else 0
            self._changed.wait_for(self._enough, timeout)
            if not self._enough():
                return 0
            if not self._ahead and time.monotonic() - self._handed_out_at < THREAD_RETURN_S:
                self._gather()
            taken = self._room()
            self.out += taken
            return taken

    def add(self, threads: int) -> None:
        """Add new, idle threads."""
        with self._changed:
            self.total += threads
            self._changed.notify()

    def give(self, threads: int) -> None:
        self._returned(threads)
        if self._room() > self._call_above:
            self._call_above = math.inf
            self._call()

    def call_when_more(self, than: int, call: Callable[[], object]) -> None:
        """Call once when more than `than` places are free, at once if they are."""
        with self._changed:
            self._call, self._call_above = call, than
        self.give(0)

    def _returned(self, threads: int) -> None:
        with self._changed:
            enough, self.out = self._enough(), self.out - threads
            if (not enough and self._enough()) or self.out <= 0 or self._room() > self._wake_above:
                self._changed.notify()  # a gathering thread polls, and needs no notification

    def count_out(self, threads: int) -> None:
        """Reserve places for which `give` will be called a second time."""
        with self._changed:
            self.out += threads

    def wait_for_more(self, than: int, timeout: float) -> None:
        """Return when more than `than` places are free, after `timeout` seconds, or when woken."""
        with self._changed:
            if self._room() <= than:
                self._wake_above = than
                self._changed.wait(timeout)
                self._wake_above = math.inf

    def wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def give_back(self, threads: int) -> None:
        """Release the places for which there was no run; the runs of the others begin now."""
        self._handed_out_at = time.monotonic()
        self.give(threads)

    def _are_brief(self) -> bool:
        recent = sorted(self._recent)
        counted = recent[: MIN_RUNS_JUDGED - MAX_LONG_RUNS]
        most = BRIEF_WHILE_AHEAD_S if self._were_brief else BRIEF_RUN_S
        return recent[-1] < math.inf and sum(counted) < most * len(counted)

    def _room(self) -> int:
        return self.total + self._ahead - self.out

    def _enough(self) -> bool:
        """Whether a take is worth it: when claiming ahead, only while at most half of the places are taken."""
        return self._room() > self._ahead // 2

    def _gather(self) -> None:
        known = 0
        while known < self._room() < self.total:
            known = self._room()
            self._changed.wait(THREAD_GATHERING_S)
