"""The lanes of the queue in memory; see `queue.lanes`. Twin: lua/order/lanes.lua."""

from __future__ import annotations

from dataclasses import dataclass

from duetime.scheduler.queue.lanes import (
    LANE_CHECK_INTERVAL_MS,
    MAIN_LANE,
    MAX_LANES_CHECKED,
    KnownActions,
    knows,
)
from duetime.scheduler.queue.memory.lazy_heap import LazyHeap
from duetime.scheduler.queue.memory.threads import WorkerThreads

_MAIN_ONLY = [MAIN_LANE]


@dataclass(slots=True)
class _Lane:
    """`check_at` is when to look whether the lane can go, `classes` how many classes stand here."""

    check_at: float
    classes: int = 0


class Lanes:
    """The actions that have a lane of their own. `now` is in milliseconds since 1970."""

    def __init__(self, threads: WorkerThreads) -> None:
        self._threads = threads
        self._lanes: dict[str, _Lane] = {}
        self._checks = LazyHeap[tuple[float, str]](self._is_due)
        self._taker: KnownActions = frozenset()

    def __bool__(self) -> bool:
        return bool(self._lanes)

    def of(self, action: str) -> str:
        """Return the lane of the runs of an action."""
        return action if action in self._lanes else MAIN_LANE

    def split(self, action: str, now: float) -> None:
        """Give an action a lane of its own."""
        if action not in self._lanes:
            self._lanes[action] = _Lane(now)
            self._check_later(action, now)

    def known(self, actions: KnownActions) -> list[str]:
        """Return the lanes of a worker with handlers for `actions`, the main lane first."""
        if not self._lanes:
            return _MAIN_ONLY
        if actions is None:
            return [MAIN_LANE, *self._lanes]
        return [MAIN_LANE, *(self._lanes.keys() & actions)]

    def taken(self, actions: KnownActions, now: float) -> list[str]:
        """Begin a take by a worker with handlers for `actions`; remove and return lanes that are due, and empty."""
        self._taker, gone = actions, list[str]()
        for _ in range(MAX_LANES_CHECKED):
            first = self._checks.top()
            if first is None or first[0] > now:
                break
            if self._lanes[first[1]].classes:
                self._check_later(first[1], now)
            else:
                del self._lanes[first[1]]
                gone.append(first[1])
        return gone

    def took(self) -> None:
        """End a take."""
        self._taker = frozenset()

    def moved(self, before: str, after: str) -> None:
        """Count a class that left one lane for another."""
        if before in self._lanes:
            self._lanes[before].classes -= 1
        if after in self._lanes:
            self._lanes[after].classes += 1

    def is_unserved(self, action: str, now: float) -> bool:
        """Whether no worker with the handler of an action takes now or has reported lately."""
        return not knows(self._taker, action) and not self._threads.serve(action, now)

    def _check_later(self, action: str, now: float) -> None:
        self._lanes[action].check_at = now + LANE_CHECK_INTERVAL_MS
        self._checks.push((self._lanes[action].check_at, action))

    def _is_due(self, check: tuple[float, str]) -> bool:
        lane = self._lanes.get(check[1])
        return lane is not None and lane.check_at == check[0]
