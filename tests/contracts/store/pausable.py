"""The expected pause and resume of a series, for the models of walks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import datetime

from duetime.scheduler.task import State


class Pausable(ABC):
    """A model of a series. `left` is the change that an undo takes back: none after a pause, or the end of one."""

    state: State
    paused: bool
    left: object | None

    @abstractmethod
    def missed(self, now: datetime) -> bool:
        """Whether the time of the occurrence has passed, and it neither waits nor may run."""

    @abstractmethod
    def _follow(self, now: datetime) -> None:
        """Go on to the next occurrence."""

    def pause(self, _now: datetime) -> bool:
        if self.state is State.CANCELLED or self.paused:
            return False
        self.paused, self.left = True, None
        return True

    def resume(self, now: datetime) -> bool:
        if not self.paused or self.state is State.CANCELLED:
            return False
        self.paused, self.left = False, None
        if self.missed(now):
            self._follow(now)
        return True
