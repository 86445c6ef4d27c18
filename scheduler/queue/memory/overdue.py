"""Runs that were parked before they were overdue, for the queue in memory: each is examined once more when it is.

A run gets first call of the pool that it lacks only when a take examines it. Without a timer, smaller runs could take
all that is released and the queue would never examine it again.
"""

from __future__ import annotations

from duetime.scheduler.queue.constants import MAX_OVERDUE_PER_TAKE
from duetime.scheduler.queue.memory.classes import ClassName, RunClass, RunClasses
from duetime.scheduler.queue.memory.lazy_heap import LazyHeap
from duetime.scheduler.queue.memory.pools import LivePools
from duetime.scheduler.queue.memory.turns import Rank

Parked = tuple[Rank, ClassName]
"""The head of a parked class, and the class."""


class OverdueHeads:
    """Heads of parked classes by the millisecond at which they become overdue; those that have left are forgotten."""

    def __init__(self, waiting: RunClasses, pools: LivePools) -> None:
        self._waiting = waiting
        self._pools = pools
        self._heads = LazyHeap[Parked](self._is_parked)

    def add(self, cls: RunClass, head: Rank) -> None:
        """Examine a class, which is parked with this head, as soon as the head is overdue."""
        cls.examined_when_overdue = head
        self._heads.push((head, cls.name))

    def next(self) -> float | None:
        """Return when the first head becomes overdue, in queue time."""
        first = self._heads.top()
        return _overdue_at(first) + self._pools.time.behind if first is not None else None

    def examine(self) -> None:
        """Unpark the classes, a bounded number at a time, whose heads are overdue by the wall clock."""
        for _ in range(MAX_OVERDUE_PER_TAKE):
            first = self._heads.top()
            cls = self._waiting.named(first[1]) if first is not None else None
            if first is None or cls is None or _overdue_at(first) > self._pools.time.wall:
                break
            self._waiting.unpark(cls)

    def _is_parked(self, parked: Parked) -> bool:
        cls = self._waiting.named(parked[1])
        return cls is not None and cls.examined_when_overdue == parked[0]


def _overdue_at(parked: Parked) -> float:
    return parked[0][0] + 1
