"""The runner: the only process of this machine that runs the tasks of a database; the others wait to replace it.

A file lock of the operating system makes it the only one. Each new runner raises the epoch in the database and recovers
the runs of the last one. A frozen process that continues later has an old epoch, and can start nothing.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta
from threading import Lock
from typing import TYPE_CHECKING

from duetime.scheduler.delivery.deliverer import Deliverer
from duetime.scheduler.dispatch.placement import Placement
from duetime.scheduler.dispatch.pool_registry import PoolRegistry
from duetime.scheduler.errors import RunnerReplaced
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.nodes.candidacy import Candidacy
from duetime.scheduler.nodes.ipc import RunnerClient
from duetime.scheduler.nodes.options import RunnerOptions
from duetime.scheduler.queue.remote import NoAnswer, Question
from duetime.scheduler.run_records import ReadyRun
from duetime.scheduler.runtime.file_lock import FileLock
from duetime.scheduler.runtime.loop import STEP_TIMEOUT_S, Loop
from duetime.scheduler.runtime.notices import TermReplaced
from duetime.scheduler.runtime.notifier import RunNotifier
from duetime.scheduler.store import Store
from duetime.scheduler.task import Json

if TYPE_CHECKING:
    from duetime.scheduler.nodes.term import RunnerTerm

__all__ = ["Runner", "RunnerOptions"]

LOCK_RETRY_INTERVAL_S = 0.5
"""Seconds between two tries of a candidate for the lock."""

log = logging.getLogger(__name__)


class Runner:
    """Runs due tasks while this process holds the lock, and waits for the lock otherwise. Start and stop it once.

    `placement` computes order keys, by default from the pools of `registry`; `deliverer` sends outcomes, where there
    are channels. `notifier` is called on any thread with what happens to runs.
    """

    def __init__(
        self,
        store: Store,
        handlers: Handlers,
        options: RunnerOptions,
        *,
        placement: Placement | None = None,
        registry: PoolRegistry | None = None,
        deliverer: Deliverer | None = None,
        notifier: RunNotifier = RunNotifier(),  # noqa: B008 - a frozen value
    ) -> None:
        self._store = store
        self._handlers = handlers
        self._options = options
        self._registry = registry or PoolRegistry(store)
        self._placement = placement or Placement(self._registry.known)
        self._deliverer = deliverer
        self._notifier = notifier
        self._lock = FileLock(options.lock)
        self._term: RunnerTerm | None = None
        self._client = RunnerClient(store)
        self._stopped = False
        self._starting = Lock()
        self._stopping = Lock()
        self._hurried = False
        self._ending: RunnerTerm | None = None
        self._candidacy: Candidacy | None = None
        self._candidate = Loop("candidate", self._step)

    @property
    def running(self) -> bool:
        """Whether this process is the runner."""
        return self._term is not None

    def start(self, candidacy: Candidacy | None = None) -> None:
        """Become the runner when the lock is free and `candidacy`, if any, allows it; returns at once."""
        self._candidacy = candidacy
        self._candidate.start()

    def reconsider(self) -> None:
        """Check at once whether the candidacy allows it by now. May be called from any thread."""
        self._candidate.wake()

    def wake(self) -> None:
        """Notify the runner, here or in another process, that a stored run may be due, or cancelled.

        Takes less than a millisecond, and 50 at most.
        """
        term = self._term
        if term is not None:
            term.wake()
        else:
            self._client.wake()

    @property
    def dispatches(self) -> bool:
        """Whether this process can put runs into the queue, which is in the memory of the runner."""
        return self.running

    def place(self, run: ReadyRun) -> None:
        """Put a run that was stored as READY into the queue; the next runner finds any that this one did not put."""
        term = self._term
        if term is not None:
            term.engine.place(run)

    def ask(self, question: Question) -> Json:
        """Query the queue, here or in the runner's process; None when no runner can be reached."""
        term = self._term
        return term.answer(question) if term is not None else self._client.ask(question)

    def silence(self) -> NoAnswer:
        """Return why no process answered: there is no runner, or this process becomes it within seconds."""
        is_starting = self._candidacy is not None and self._candidacy.is_starting and not self._stopped
        return NoAnswer.STARTING if is_starting else NoAnswer.NO_PROCESS

    def stop(self, grace: timedelta | None = None) -> None:
        """End: running work finishes within `grace` (default: the options') or is handed back. Never hangs.

        From the call on nothing more starts. A second call, from another thread too, returns when the first has ended.
        """
        with self._starting:
            self._stopped = True
        with self._stopping:
            self._candidate.stop(STEP_TIMEOUT_S)
            self._step_down(self._options.grace if grace is None else grace)

    def hurry(self) -> None:
        """Shorten the grace period of `stop`, also while it waits. May be called from any thread."""
        self._hurried = True
        for term in (self._term, self._ending):
            if term is not None:
                term.engine.hurry()

    def _step(self) -> float | None:
        if self._term is not None and self._term.replaced:
            self._notifier.noticed(TermReplaced())
            self._step_down(timedelta(0))
            return self._options.lease.total_seconds()
        return self._try_to_acquire() if self._term is None else None

    def _try_to_acquire(self) -> float | None:
        """Try to become the runner, if this process may; return the seconds until the next try."""
        wait = self._candidacy.wait() if self._candidacy is not None else 0.0
        if wait != 0.0:
            return wait
        if self._lock.acquire():
            self._begin()
        return None if self.running else LOCK_RETRY_INTERVAL_S

    def _begin(self) -> None:
        from duetime.scheduler.nodes.term import RunnerTerm  # noqa: PLC0415 - a process that never runs needs no worker

        try:
            term = RunnerTerm(
                self._store,
                self._handlers,
                self._options,
                placement=self._placement,
                registry=self._registry,
                deliverer=self._deliverer,
                notifier=replace(self._notifier, on_replaced=self._candidate.wake),
            )
            if not self._started(term):
                term.discard()
                self._lock.release()
        except RunnerReplaced as error:
            log.warning("another process became the runner first: %s", error)
            self._lock.release()
            return
        except BaseException:
            self._lock.release()
            raise

    def _started(self, term: RunnerTerm) -> bool:
        """Start the term, unless `stop` was called while this process took over."""
        with self._starting:
            if not self._stopped:
                term.start()
                self._term = term
            return not self._stopped

    def _step_down(self, grace: timedelta) -> None:
        self._ending = term = self._term
        self._term = None
        if term is not None:
            term.end(timedelta(0) if self._hurried else grace)
            self._ending = None
            self._lock.release()
