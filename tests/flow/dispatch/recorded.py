"""A queue whose takes are recorded, as the tests of decisions and of shadow policies need it."""

from __future__ import annotations

from duetime.scheduler.dispatch.decision_log import DecisionLog
from duetime.scheduler.dispatch.dispatcher import Dispatcher
from duetime.scheduler.dispatch.placement import Placement
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.rules.policies.decision_record import Decision
from duetime.scheduler.store import Store

from tests.builders import Clock


class Seconds:
    """A monotonic clock that only moves when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Recorded:
    """A queue, its dispatcher, and the log of one worker."""

    def __init__(self, store: Store, clock: Clock, per_minute: int = 60) -> None:
        self.store, self.seconds = store, Seconds()
        self.queue = MemoryQueue(lambda: clock().timestamp() * 1000)
        self.dispatcher = Dispatcher(store, self.queue)
        self.log = DecisionLog(store, Placement(), "w1", per_minute, clock=self.seconds)

    def take(self, n: int) -> None:
        """Take as a worker does."""
        self.dispatcher.step()
        self.log.keep(self.queue.take("w1", n, 1e6, record=self.log.wanted()).looks)

    def decisions(self) -> list[Decision]:
        """Store what was recorded; return all decisions, oldest first."""
        self.log.step()
        return [*reversed(self.store.decisions.page(None, limit=99).decisions)]
