"""Pools and the classes of runs that stand behind them, for the queue in memory.

A class is all runs of a tier that need the same pools, in order. One whose head lacks a pool is parked there, under the
units that its head needs, so that 100,000 blocked runs cost a take nothing. A release wakes the best class of each size
that fits; each look at a class that leaves room wakes the next: nothing that fits stands still, and nothing is scanned.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from duetime.scheduler.queue.port import Entry

ClassName = tuple[int, tuple[str, ...]]


@dataclass(slots=True)
class Pool:
    """A limited resource: `used` of `capacity` units are reserved; `parked` are the classes that lack it, by units."""

    capacity: int = 0
    used: int = 0
    parked: dict[int, list[tuple[float, str, RunClass]]] = field(default_factory=dict)

    @property
    def free(self) -> int:
        return self.capacity - self.used

    def park(self, cls: RunClass, head: Entry, name: str) -> None:
        units = head.needs[name]
        cls.parked_on = name
        heapq.heappush(self.parked.setdefault(units, []), (head.key, head.run_id, cls))

    def wakeable(self, name: str) -> list[RunClass]:
        """Unpark the best class of each size that fits now."""
        fitting = [units for units in self.parked if units <= self.free]
        woken = (self._best(units, name) for units in fitting)
        return [cls for cls in woken if cls is not None]

    def _best(self, units: int, name: str) -> RunClass | None:
        behind = self.parked[units]
        while behind:
            key, run_id, cls = heapq.heappop(behind)
            head = cls.head()
            if cls.parked_on == name and head is not None and (head.key, head.run_id) == (key, run_id):
                cls.parked_on = None
                return cls
        del self.parked[units]
        return None


@dataclass(slots=True)
class RunClass:
    """The waiting runs of one class; its heap is cleaned lazily: `alive` tells if a run still waits under a key."""

    name: ClassName
    alive: Callable[[str, float], Entry | None]
    heap: list[tuple[float, str]] = field(default_factory=list)
    parked_on: str | None = None

    def __lt__(self, other: RunClass) -> bool:
        return self.name < other.name

    def head(self) -> Entry | None:
        while self.heap:
            key, run_id = self.heap[0]
            entry = self.alive(run_id, key)
            if entry is not None:
                return entry
            heapq.heappop(self.heap)
        return None


class Pools:
    """All pools by name; reserves for a run everything it needs, or nothing."""

    def __init__(self) -> None:
        self._pools: dict[str, Pool] = {}

    def __getitem__(self, name: str) -> Pool:
        """Return the pool, one without capacity when it is not known: what needs it is held until it appears."""
        return self._pools.setdefault(name, Pool())

    def use(self) -> dict[str, tuple[int, int]]:
        return {name: (pool.used, pool.capacity) for name, pool in self._pools.items()}

    def short(self, entry: Entry) -> str | None:
        """Return the first pool that has too little for this run."""
        return next((name for name, units in sorted(entry.needs.items()) if self[name].free < units), None)

    def reserve(self, entry: Entry) -> None:
        for name, units in entry.needs.items():
            self[name].used += units

    def release(self, entry: Entry) -> list[RunClass]:
        """Give back what a run had reserved, and return the classes that may be looked at again."""
        for name, units in entry.needs.items():
            self[name].used -= units
        return self.woken(entry.needs)

    def woken(self, names: Iterable[str]) -> list[RunClass]:
        return [cls for name in names for cls in self[name].wakeable(name)]

    def resize(self, name: str, capacity: int) -> list[RunClass]:
        self[name].capacity = capacity
        return self.woken([name])
