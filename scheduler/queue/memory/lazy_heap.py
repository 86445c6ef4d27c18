"""A heap whose items die where they lie: cheap to change, cleaned when one comes up or when most are dead."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Generic, TypeVar

LEAST = 32
"""Below this many items nothing is gained by cleaning."""

T = TypeVar("T", bound=tuple[object, ...])


class LazyHeap(Generic[T]):
    """The smallest of the items for which `alive` holds; one may be in it more than once. Every call is O(log n)."""

    def __init__(self, alive: Callable[[T], bool]) -> None:
        self._alive = alive
        self._items: list[T] = []
        self._clean_at = LEAST

    def push(self, item: T) -> None:
        heapq.heappush(self._items, item)
        if len(self._items) >= self._clean_at:
            self._items = self.all()
            heapq.heapify(self._items)
            self._clean_at = max(LEAST, 2 * len(self._items))

    def top(self) -> T | None:
        """Return the smallest that is alive, and keep it."""
        while self._items:
            if self._alive(self._items[0]):
                return self._items[0]
            heapq.heappop(self._items)
        return None

    def all(self) -> list[T]:
        """Return every item that is alive, once, in no order."""
        return list({item for item in self._items if self._alive(item)})

    def first(self, most: int) -> list[T]:
        """Return the smallest that are alive, `most` of them, in order: the heap's order spares it most others."""
        found: list[T] = []
        places = [(self._items[0], 0)] if self._items else []
        while places and len(found) < most:
            item, place = heapq.heappop(places)
            if self._alive(item) and item not in found:
                found.append(item)
            for child in (2 * place + 1, 2 * place + 2):
                if child < len(self._items):
                    heapq.heappush(places, (self._items[child], child))
        return found

    def before(self, item: T, most: int) -> int:
        """Count those that are alive and smaller, up to `most`: the heap's order spares it all that are larger."""
        found: set[T] = set()
        places = [0]
        while places and len(found) < most:
            place = places.pop()
            if place < len(self._items) and self._items[place] < item:
                places += (2 * place + 1, 2 * place + 2)
                if self._alive(self._items[place]):
                    found.add(self._items[place])
        return len(found)

    def __len__(self) -> int:
        """Count the items, dead ones among them."""
        return len(self._items)
