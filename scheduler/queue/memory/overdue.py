"""Runs that were parked before they were overdue, for the queue in memory: each is examined once more when it is.

A run gets first call of the pool that it lacks only when a take examines it. Without a timer, smaller runs could take
all that is released and the queue would never examine it again.
"""

from __future__ import annotations

import heapq

from duetime.scheduler.queue.constants import MAX_OVERDUE_PER_TAKE
from duetime.scheduler.queue.memory.classes import ClassName
from duetime.scheduler.queue.memory.turns import Rank


class OverdueHeads:
    """Heads of classes by the millisecond at which they become overdue. A head that has moved on is ignored."""

    def __init__(self) -> None:
        self._heads: list[tuple[Rank, ClassName]] = []
        self._known: set[tuple[Rank, ClassName]] = set()

    def add(self, head: Rank, name: ClassName) -> None:
        if (head, name) not in self._known:
            self._known.add((head, name))
            heapq.heappush(self._heads, (head, name))

    def next(self, behind: float) -> float | None:
        """Return when the first head becomes overdue in queue time; the wall clock is `behind` ms behind that."""
        return self._heads[0][0][0] + 1 + behind if self._heads else None

    def due(self, wall: float) -> list[tuple[Rank, ClassName]]:
        """Remove and return the first heads that are overdue when the wall clock shows `wall`."""
        found: list[tuple[Rank, ClassName]] = []
        while self._heads and self._heads[0][0][0] + 1 <= wall and len(found) < MAX_OVERDUE_PER_TAKE:
            found.append(heapq.heappop(self._heads))
        self._known.difference_update(found)
        return found
