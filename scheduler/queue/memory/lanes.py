"""The lanes of the queue in memory; see `queue.lanes`. Twin: lua/lanes.lua."""

from __future__ import annotations

from dataclasses import dataclass

from duetime.scheduler.queue.lanes import LANE_KEPT_MS, MAIN_LANE, KnownActions, knows
from duetime.scheduler.queue.memory.threads import WorkerThreads

_MAIN_ONLY = [MAIN_LANE]


@dataclass(slots=True)
class _Lane:
    """`missed_at` is when a worker without the handler last left runs here, `classes` how many classes stand here."""

    missed_at: float
    classes: int = 0


class Lanes:
    """The actions that have a lane of their own. `now` is in milliseconds since 1970."""

    def __init__(self, threads: WorkerThreads) -> None:
        self._threads = threads
        self._lanes: dict[str, _Lane] = {}
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

    def known(self, actions: KnownActions) -> list[str]:
        """Return the lanes of a worker with handlers for `actions`, the main lane first."""
        return [MAIN_LANE, *(action for action in self._lanes if knows(actions, action))] if self._lanes else _MAIN_ONLY

    def taken(self, actions: KnownActions, now: float) -> None:
        """Begin a take by a worker with handlers for `actions`, and remove lanes that are no longer needed."""
        self._taker = actions
        for action, lane in list(self._lanes.items()):
            if lane.classes and not knows(actions, action):
                lane.missed_at = now
            elif not lane.classes and now - lane.missed_at > LANE_KEPT_MS:
                del self._lanes[action]

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
