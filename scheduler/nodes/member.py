"""A member: one process of many on one database, with one queue between them and no leader.

Every member makes due runs ready and monitors the queue; members with a worker also run tasks.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from typing import Protocol

from duetime.scheduler.dispatch.placement import Placement
from duetime.scheduler.dispatch.pool_registry import PoolRegistry
from duetime.scheduler.dispatch.rebuild import Damage, QueueMonitor
from duetime.scheduler.dispatch.stuck_runs import StuckRuns
from duetime.scheduler.nodes.pool_publisher import PoolPublisher
from duetime.scheduler.queue import DispatchQueue, QueueLost
from duetime.scheduler.queue.failsafe import FailsafeQueue
from duetime.scheduler.queue.remote import NoAnswer, Question, answer
from duetime.scheduler.run_records import ReadyRun
from duetime.scheduler.runtime.loop import STEP_TIMEOUT_S, Loop
from duetime.scheduler.runtime.notifier import RunNotifier
from duetime.scheduler.store import Store
from duetime.scheduler.task import Json

MIN_SIGNAL_INTERVAL_S = 0.1
"""Minimum seconds between two signals; changes in between share one."""

log = logging.getLogger(__name__)


class Signal(StrEnum):
    """A message between members; one that is lost costs two seconds, or the time until the next renewal."""

    DUE = "due"  # runs may be due, and the sender does not dispatch them
    CHANGED = "changed"  # a running run may be cancelled


class SignalBus(Protocol):
    """Sends signals to the other members, and receives theirs. Never raises; a signal that cannot be sent is lost."""

    def send(self, word: str) -> None:
        """Send a signal to all other members."""

    def listen(self, on_signal: Callable[[str], None]) -> None:
        """Call `on_signal` with each received signal, on a thread of its own, until `close`."""

    def close(self) -> None:
        """Stop sending and receiving."""


class SharedQueue(Protocol):
    """The queue that all members share, their signals, and the connections of both."""

    @property
    def queue(self) -> DispatchQueue: ...

    @property
    def signals(self) -> SignalBus: ...

    def claim(self) -> None:
        """Claim the queue for the database of this member. Raises QueueTaken when another database uses it."""

    def close(self) -> None:
        """Close the connections; nothing uses them any more."""


class EngineProtocol(Protocol):
    """The engine of a member: a dispatcher alone, or a dispatcher with a worker."""

    def start(self) -> None: ...

    def wake(self) -> None: ...

    def place(self, run: ReadyRun) -> None: ...

    def check(self) -> None: ...

    def hurry(self) -> None: ...

    def end(self, grace: timedelta) -> None: ...


class Member:
    """Works from `start` to `stop`. `make_engine` makes the engine when there is a queue.

    A member that is never started, as in a command that only schedules a task, notifies the others with `wake`.
    """

    def __init__(
        self,
        store: Store,
        shared: SharedQueue,
        registry: PoolRegistry,
        *,
        placement: Placement,
        name: str,
        make_engine: Callable[[FailsafeQueue], EngineProtocol],
        grace: timedelta,
        notifier: RunNotifier = RunNotifier(),  # noqa: B008 - a frozen value
    ) -> None:
        self.queue = FailsafeQueue(shared.queue)
        self._shared = shared
        self._signals = shared.signals
        self._make_engine = make_engine
        self._grace = grace
        self._publisher = publisher = PoolPublisher(registry, self.queue, now=store.now)
        self._monitor = QueueMonitor(
            store,
            self.queue,
            fill=publisher.fill,
            placement=placement,
            owner=name,
            claim=shared.claim,
            notifier=notifier,
        )
        stuck_runs = StuckRuns(store, self.queue, placement)
        self._loops = [self._monitor.loop, publisher.loop, stuck_runs.loop, Loop("signals", self._publish)]
        self._engine: EngineProtocol | None = None
        self._ending: EngineProtocol | None = None
        self._unpublished = False
        self._publish_at = time.monotonic()

    def start(self) -> None:
        """Start; an empty queue is rebuilt first.

        Raises StoreUnavailable without a database, and QueueTaken when another database uses the queue.
        """
        self._monitor.open()
        self._engine = self._make_engine(self.queue)
        self._engine.start()
        for loop in self._loops:
            loop.start()
        self._signals.listen(self._on_signal)

    def wake(self) -> None:
        """Notify this process and all others that a stored run may be due, or cancelled."""
        if self._engine is None:
            self._signals.send(Signal.DUE)
            return
        self._engine.wake()
        self._unpublished = True
        self._loops[-1].wake()

    @property
    def dispatches(self) -> bool:
        """Whether this process can put runs into the queue now."""
        return self._engine is not None and self.queue.away is None

    def place(self, run: ReadyRun) -> None:
        """Put a run that was stored as READY into the queue, soon; a run that is missing there is found within 30 s."""
        engine = self._engine
        if engine is not None:
            engine.place(run)

    def ask(self, question: Question) -> Json:
        """Query the queue; None while it is away."""
        return answer(self.queue, question)

    @property
    def damage(self) -> Damage | None:
        """The last damage for which this process refilled the queue."""
        return self._monitor.damage

    def silence(self) -> NoAnswer:
        """Return why the queue did not answer the last question."""
        return NoAnswer.EMPTY if isinstance(self.queue.away, QueueLost) else NoAnswer.AWAY

    def stop(self, grace: timedelta | None = None) -> None:
        """End: running work finishes within `grace` (default: the member's) or is handed back. Never hangs."""
        self._ending = engine = self._engine
        self._engine = None
        if engine is not None:
            engine.end(self._grace if grace is None else grace)
            self._signals.send(Signal.DUE)  # runs that were handed back may start elsewhere
        for loop in self._loops:
            loop.stop(0)
        self._signals.close()
        for loop in self._loops:
            loop.stop(STEP_TIMEOUT_S)
        self._publisher.close()
        self._shared.close()

    def hurry(self) -> None:
        """Shorten the grace period of `stop`, also while it waits. May be called from any thread."""
        for engine in (self._engine, self._ending):
            if engine is not None:
                engine.hurry()

    def _on_signal(self, word: str) -> None:
        engine = self._engine
        if engine is not None:
            (engine.wake if word == Signal.DUE else engine.check)()

    def _publish(self) -> float | None:
        wait = self._publish_at - time.monotonic()
        if not self._unpublished or wait > 0:
            return wait if self._unpublished else None
        self._unpublished = False
        self._publish_at = time.monotonic() + MIN_SIGNAL_INTERVAL_S
        self._signals.send(Signal.CHANGED)
        return None
