"""A provider that answers 50 calls in any sliding second and 5 at once, each after 60 ms, and refuses the others."""

from __future__ import annotations

import threading
import time
from collections import deque

CALL_S = 0.06
CALLS_PER_S = 50
MAX_CALLS_IN_FLIGHT = 5


def least_seconds(calls: int) -> float:
    """Return the seconds from the first call to the last answer, if nothing but the two limits took time."""
    first_second = min(calls, CALLS_PER_S)
    within = ((first_second - 1) // MAX_CALLS_IN_FLIGHT + 1) * CALL_S
    return (calls - first_second) // CALLS_PER_S + within


class Provider:
    """Answers after 60 ms, or refuses at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: deque[float] = deque()
        self._now = 0
        self.answered = 0
        self.refused = 0
        self.most_a_second = 0
        self.most_in_flight = 0
        self.first = 0.0
        self.last = 0.0

    def call(self) -> bool:
        """Return whether the call was answered."""
        if not self._admitted(time.monotonic()):
            return False
        time.sleep(CALL_S)
        with self._lock:
            self._now -= 1
            self.answered += 1
            self.last = time.monotonic()
        return True

    def _admitted(self, now: float) -> bool:
        with self._lock:
            self.first = self.first or now
            while self._calls and self._calls[0] <= now - 1:
                self._calls.popleft()
            if len(self._calls) >= CALLS_PER_S or self._now >= MAX_CALLS_IN_FLIGHT:
                self.refused += 1
                return False
            self._calls.append(now)
            self._now += 1
            self.most_a_second = max(self.most_a_second, len(self._calls))
            self.most_in_flight = max(self.most_in_flight, self._now)
            return True
