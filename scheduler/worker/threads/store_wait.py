"""Calls of a handler's context wait for a database that is away, as results of attempts do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.runtime.notices import StoreAwaited
from duetime.scheduler.worker.active_runs import ActiveRun

MIN_PAUSE_S = 0.05
MAX_PAUSE_S = 0.5
"""An interrupt of the handler is raised after the pause."""

MAX_LOOP_WAIT_S = 3.0
"""Seconds of an outage for which an event loop may be blocked: every async handler of the worker stands still."""

T = TypeVar("T")


class StoreWait:
    """Repeats calls until the database answers. The time limit of an attempt bounds them; `clock` is in seconds."""

    def __init__(
        self, *, clock: Callable[[], float] = time.monotonic, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._clock = clock
        self._pause = pause
        self._away_since: float | None = None

    def call(self, held: ActiveRun, fn: Callable[[], T]) -> T:
        """Return the answer of `fn`. Raises StoreUnavailable once the attempt has to end, or blocks others."""
        pause = MIN_PAUSE_S
        while True:
            try:
                answer = fn()
            except StoreUnavailable as error:
                self._failed(held, error)
                if self._is_over(held):
                    raise
                self._pause(pause)
                pause = min(2 * pause, MAX_PAUSE_S)
            else:
                held.store_away, self._away_since = False, None
                return answer

    def _failed(self, held: ActiveRun, error: StoreUnavailable) -> None:
        if not held.store_away:
            held.notifier.noticed(StoreAwaited(held.run_id, error))
        held.store_away = True
        if self._away_since is None:
            self._away_since = self._clock()

    def _is_over(self, held: ActiveRun) -> bool:
        if held.call.pending is not None or held.ended:
            return True
        since = self._away_since
        return since is not None and _is_on_a_loop() and self._clock() - since >= MAX_LOOP_WAIT_S


def _is_on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
