"""Runs that were parked before they were overdue, for the queue in memory: each is looked at once more when it is.

Only a look gives a run first call of the pool that it lacks, and nothing else may ever make the queue look at it while
smaller ones take what is released.
"""

from __future__ import annotations

import heapq

from duetime.scheduler.queue.constants import MAX_OVERDUE_PER_TAKE
from duetime.scheduler.queue.memory.classes import ClassName
from duetime.scheduler.queue.memory.turns import Rank


class OverdueHeads:
    """Heads of classes by the millisecond at which they are overdue. One that moved on is ignored at its time."""

    def __init__(self) -> None:
        self._heads: list[tuple[Rank, ClassName]] = []
        self._known: set[tuple[Rank, ClassName]] = set()

    def add(self, head: Rank, name: ClassName) -> None:
        if (head, name) not in self._known:
            self._known.add((head, name))
            heapq.heappush(self._heads, (head, name))

    def next(self, behind: float) -> float | None:
        """Return when the first is overdue, by a clock from which the one on the wall is `behind`."""
        return self._heads[0][0][0] + 1 + behind if self._heads else None

    def due(self, wall: float) -> list[tuple[Rank, ClassName]]:
        """Return the first that are overdue when the clock shows `wall`, and forget them."""
        found: list[tuple[Rank, ClassName]] = []
        while self._heads and self._heads[0][0][0] + 1 <= wall and len(found) < MAX_OVERDUE_PER_TAKE:
            found.append(heapq.heappop(self._heads))
        self._known.difference_update(found)
        return found
