"""The drain of a worker: it takes no more runs, for a while that an operator ends, or for ever because it stops."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

from duetime.scheduler.rules.settlement import AttemptResult
from duetime.scheduler.runtime.interrupt import Interrupt, WorkerStopping
from duetime.scheduler.runtime.notices import DrainBegun, DrainEnded
from duetime.scheduler.store import Store
from duetime.scheduler.store.workers import DrainMode
from duetime.scheduler.worker import shutdown
from duetime.scheduler.worker.active_runs import ActiveRun, ActiveRuns

INTERRUPT_GRACE_S = 1.0
"""Seconds that a handler has between its interrupt, after the grace period, and the end of the process."""


class RunSource(Protocol):
    """Takes runs for the worker; see DispatchBroker."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def drain(self) -> None: ...


class Drain:
    """Drains one worker. `interrupt` stops a run and kills its own process, if it has one and does not stop.

    `mode` is how the worker drains, None while it works. The worker lives on, so a handler that ignores its interrupt
    keeps its run until its time limit. Nothing else ends a thread, and the run must not start twice.
    """

    def __init__(
        self,
        store: Store,
        source: RunSource,
        active_runs: ActiveRuns,
        *,
        worker: str,
        grace: timedelta,
        interrupt: Callable[[ActiveRun, type[Interrupt]], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.mode: DrainMode | None = None
        self._store = store
        self._source = source
        self._active_runs = active_runs
        self._worker = worker
        self._grace_s = grace.total_seconds()
        self._interrupt = interrupt
        self._clock = clock
        self._interrupt_at = math.inf

    def follow(self, mode: DrainMode | None) -> bool:
        """Do what the operator asks now, and return whether that is new; call it every few seconds."""
        if mode is not self.mode:
            self._change(mode)
            return True
        if self._interrupt_at <= self._clock():
            self._interrupt_at = math.inf
            self._interrupt_all()
        return False

    def _change(self, mode: DrainMode | None) -> None:
        self._interrupt_at = math.inf
        if mode is None:
            self._source.resume()
            self._active_runs.notifier.noticed(DrainEnded())
        else:
            self._source.pause()
            self._active_runs.notifier.noticed(DrainBegun())
        if mode is DrainMode.NOW:
            shutdown.announce(self._store, self._worker, self._active_runs.all())
            self._interrupt_at = self._clock() + self._grace_s
        self.mode = mode

    def _interrupt_all(self) -> None:
        for held in shutdown.warned(self._active_runs):
            self._interrupt(held, WorkerStopping)

    def end(self, grace: timedelta, hand_in: Callable[[ActiveRun, AttemptResult], None]) -> None:
        """Drain for ever: let running runs finish within `grace`, and hand the rest back for other workers."""
        self._source.drain()
        shutdown.announce(self._store, self._worker, self._active_runs.all())
        if not self._active_runs.wait_until_empty(grace.total_seconds()):
            shutdown.interrupt(self._active_runs)
            self._active_runs.wait_until_empty(INTERRUPT_GRACE_S)
        shutdown.hand_back(self._active_runs.close(), hand_in)
