"""Series that go on by themselves, as the dispatcher asks for it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from duetime.scheduler.store.chains.dependencies import Dependencies
from duetime.scheduler.store.statements.series.overtaken import Overtaken, overtake
from duetime.scheduler.store.statements.series.pause_ends import end_due


class SeriesTimers:
    """The series of tasks that recur. Any number of processes may call."""

    def __init__(self, now: Callable[[], datetime], dependencies: Dependencies) -> None:
        self._now = now
        self._ending = dependencies.ending

    def overtake(self, *, limit: int) -> Overtaken:
        """Let the next occurrence overtake at most `limit` open runs whose policy says so."""
        return self._ending(lambda connection: overtake(connection, limit, self._now()))

    def end_pauses(self, *, limit: int) -> list[str]:
        """Resume at most `limit` tasks whose pause is over, and return them."""
        return self._ending(lambda connection: end_due(connection, limit, self._now()))
