"""A member: one process of many on one database, with one queue between them and no leader among them.

Each of them makes due what is due, and looks after the queue; those with a crew also run tasks.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from typing import Protocol

from duetime.scheduler.dispatch.placement import Placement
from duetime.scheduler.dispatch.pool_registry import PoolPublisher, PoolRegistry
from duetime.scheduler.dispatch.rebuild import QueueMonitor
from duetime.scheduler.queue import DispatchQueue, QueueLost
from duetime.scheduler.queue.failsafe import FailsafeQueue
from duetime.scheduler.queue.remote import NoAnswer, Question, answer
from duetime.scheduler.records import ReadyRun
from duetime.scheduler.runtime.loop import STEP_PATIENCE, Loop
from duetime.scheduler.store import Store
from duetime.scheduler.task import Json

FEWEST_SECONDS = 0.1
"""Seconds between two pieces of news: what changes meanwhile is told together."""

log = logging.getLogger(__name__)


class Signal(StrEnum):
    """A message between members; one that is lost costs two seconds, or the time until the next renewal."""

    DUE = "due"  # something may be due, and who says so does not dispatch it
    CHANGED = "changed"  # something that runs may be wanted to stop


class SignalBus(Protocol):
    """Tells the other members, and hears them. Never raises; what cannot be told is lost."""

    def tell(self, word: str) -> None:
        """Say this to all others."""

    def listen(self, heard: Callable[[str], None]) -> None:
        """Call `heard`, on a thread of its own, with what others say, until `close`."""

    def close(self) -> None:
        """Neither tell nor hear any more."""


class EngineProtocol(Protocol):
    """The engine of a member: a dispatcher alone, or a dispatcher with a worker."""

    def start(self) -> None: ...

    def wake(self) -> None: ...

    def place(self, run: ReadyRun) -> None: ...

    def check(self) -> None: ...

    def end(self, grace: timedelta) -> None: ...


class Member:
    """Works on what is due from `start` to `stop`. `recruit` makes the team when there is a queue, `close` ends it.

    One that is never started, as in a command that only schedules something, lets the others know with `wake`.
    """

    def __init__(
        self,
        store: Store,
        queue: DispatchQueue,
        news: SignalBus,
        registry: PoolRegistry,
        *,
        placement: Placement,
        name: str,
        recruit: Callable[[FailsafeQueue], EngineProtocol],
        grace: timedelta,
        claim: Callable[[], None] = lambda: None,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self.queue = FailsafeQueue(queue)
        self._news = news
        self._recruit = recruit
        self._grace = grace
        self._close = close
        publisher = PoolPublisher(registry, self.queue, now=store.now)
        self._monitor = QueueMonitor(
            store, self.queue, fill=publisher.fill, placement=placement, owner=name, claim=claim
        )
        self._processes = [self._monitor.process, publisher.process, Loop("news", self._tell)]
        self._team: EngineProtocol | None = None
        self._untold = False
        self._tell_at = time.monotonic()

    def start(self) -> None:
        """Begin; an empty queue is rebuilt first.

        Raises StoreUnavailable without a database, and QueueTaken when another one uses the queue.
        """
        self._monitor.open()
        self._team = self._recruit(self.queue)
        self._team.start()
        for process in self._processes:
            process.start()
        self._news.listen(self._heard)

    def wake(self) -> None:
        """Say that something was stored that may be due, or cancelled: here, and wherever it may run."""
        if self._team is None:
            self._news.tell(Signal.DUE)
            return
        self._team.wake()
        self._untold = True
        self._processes[-1].wake()

    @property
    def dispatches(self) -> bool:
        """Whether this process can put runs into the queue now."""
        return self._team is not None and self.queue.away is None

    def place(self, run: ReadyRun) -> None:
        """Put a run that was stored as ready into the queue, soon; what is missing there is found within 30 s."""
        team = self._team
        if team is not None:
            team.place(run)

    def ask(self, question: Question) -> Json:
        """Ask the queue; None while it is away."""
        return answer(self.queue, question)

    def silence(self) -> NoAnswer:
        """Say why the queue did not answer when it was last asked."""
        return NoAnswer.EMPTY if isinstance(self.queue.away, QueueLost) else NoAnswer.AWAY

    def stop(self, grace: timedelta | None = None) -> None:
        """End: running work finishes within `grace` (by default as it was made) or is handed back. Never hangs."""
        team, self._team = self._team, None
        if team is not None:
            team.end(self._grace if grace is None else grace)
            self._news.tell(Signal.DUE)  # what was handed back may be started elsewhere
        for process in self._processes:
            process.stop(0)
        self._news.close()
        for process in self._processes:
            process.stop(STEP_PATIENCE)
        self._close()

    def _heard(self, word: str) -> None:
        team = self._team
        if team is not None:
            (team.wake if word == Signal.DUE else team.check)()

    def _tell(self) -> float | None:
        wait = self._tell_at - time.monotonic()
        if not self._untold or wait > 0:
            return wait if self._untold else None
        self._untold = False
        self._tell_at = time.monotonic() + FEWEST_SECONDS
        self._news.tell(Signal.CHANGED)
        return None
