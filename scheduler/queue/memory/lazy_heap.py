"""A heap with lazy deletion: dead items stay until they reach the top or until most items are dead."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Generic, TypeVar

MIN_ITEMS_CLEANED = 32
"""Minimum number of items for a cleaning; below it a cleaning saves nothing."""

T = TypeVar("T", bound=tuple[object, ...])


class LazyHeap(Generic[T]):
    """A heap of the items for which `alive` holds; an item may be in it twice.

    `push` and `top` are O(log n) on average, `all` is O(n). `first` and `before` look at as many items as they return,
    their children in the heap, and the dead ones among them. `find` looks at `most` of them.
    """

    def __init__(self, alive: Callable[[T], bool]) -> None:
        self._alive = alive
        self._items: list[T] = []
        self._clean_at = MIN_ITEMS_CLEANED

    def push(self, item: T) -> None:
        heapq.heappush(self._items, item)
        if len(self._items) >= self._clean_at:
            self._items = self.all()
            heapq.heapify(self._items)
            self._clean_at = max(MIN_ITEMS_CLEANED, 2 * len(self._items))

    def top(self) -> T | None:
        """Return the smallest live item without removing it."""
        while self._items:
            if self._alive(self._items[0]):
                return self._items[0]
            heapq.heappop(self._items)
        return None

    def find(self, holds: Callable[[T], bool], most: int) -> T | None:
        """Return the smallest live item for which `holds` is true, None if there is none among the first `most`."""
        top = self.top()
        if top is None or holds(top):
            return top
        return next(filter(holds, islice(self.ascending(), most)), None)

    def all(self) -> list[T]:
        """Return every live item once, in no order."""
        return list({item for item in self._items if self._alive(item)})

    def first(self, most: int) -> list[T]:
        """Return the `most` smallest live items in order, without a look at most of the others."""
        return list(islice(self.ascending(), most))

    def ascending(self) -> Iterator[T]:
        """Yield every live item once, in order; the heap must not change before the last one."""
        last: T | None = None
        places = [(self._items[0], 0)] if self._items else []
        while places:
            item, place = heapq.heappop(places)
            if item != last and self._alive(item):
                yield item
            last = item
            for child in (2 * place + 1, 2 * place + 2):
                if child < len(self._items):
                    heapq.heappush(places, (self._items[child], child))

    def before(self, item: T, most: int) -> int:
        """Count the smaller live items, up to `most`; larger subtrees of the heap are skipped."""
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
        """Return the number of items, dead ones included."""
        return len(self._items)
