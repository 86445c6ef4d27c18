"""A loop: a step repeated on a thread of its own, with its sleep, its wake-up and its end."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from duetime.scheduler.errors import RunnerReplaced, StoreUnavailable
from duetime.scheduler.runtime.failure_log import FailureLog

MIN_BACKOFF_S = 0.1
MAX_BACKOFF_S = 2.0
STEP_TIMEOUT_S = 5.0
"""Seconds that a loop may take to end its last step: the busy timeout of a database."""

log = logging.getLogger(__name__)


class Loop:
    """Repeats `step`, which returns the seconds to sleep, or None to sleep until woken. A failing step is repeated.

    A `FailureLog` logs failures. When the step finds that another runner has taken over, `replaced` is
    called and the loop ends.
    """

    def __init__(
        self, name: str, step: Callable[[], float | None], *, replaced: Callable[[], None] = lambda: None
    ) -> None:
        self._name = name
        self._step = step
        self._replaced = replaced
        self._woken = threading.Event()
        self._stopping = False
        self._failures = FailureLog(name)
        self._thread = threading.Thread(target=self._run, name=f"duetime-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Run the next step at once. May be called from any thread, at any time."""
        self._woken.set()

    def stop(self, timeout: float) -> bool:
        """End after the current step; False when that takes longer than `timeout` seconds."""
        self._stopping = True
        self._woken.set()
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping:
            self._woken.clear()
            try:
                pause = self._attempt()
            except RunnerReplaced as error:
                log.warning("%s stops: %s", self._name, error)
                self._replaced()
                return
            if not self._stopping:
                self._woken.wait(pause)

    def _attempt(self) -> float | None:
        try:
            pause = self._step()
        except RunnerReplaced:
            raise
        except Exception as error:  # noqa: BLE001 - the loop survives any failure of its step
            self._failures.failed(error)
            return min(MIN_BACKOFF_S * 2.0 ** min(self._failures.count, 8), MAX_BACKOFF_S)
        self._failures.succeeded()
        return pause


class StepParts:
    """The parts of a loop's step: one that fails is logged, and holds up none of the others.

    Without the database, or under a newer runner, all parts fail alike: these errors pass, and so do `passing` ones.
    """

    def __init__(self, loop: str, *passing: type[Exception], clock: Callable[[], float] = time.monotonic) -> None:
        self._loop = loop
        self._passing: tuple[type[Exception], ...] = (StoreUnavailable, RunnerReplaced, *passing)
        self._clock = clock
        self._failures: dict[str, FailureLog] = {}
        self.failed = False
        """Whether a part has failed since this was reset."""

    @contextmanager
    def isolated(self, part: str) -> Iterator[None]:
        """Log what fails in the block, which ends there; the caller continues."""
        failures = self._failures.setdefault(part, FailureLog(f"{self._loop}, {part}", self._clock))
        try:
            yield
        except self._passing:
            raise
        except Exception as error:  # noqa: BLE001 - the other parts go on whatever it is
            self.failed = True
            failures.failed(error)
        else:
            failures.succeeded()
