"""Lost threads: the handler did not stop at its time limit, so its attempt ended without it.

A thread cannot be killed. So another one replaces it, and the lost one ends when its handler returns. Replacements are
limited to the worker's number of threads; beyond that the worker shrinks, because blocked handlers use up the process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from duetime.scheduler.rules.settlement import AttemptResult
from duetime.scheduler.runtime.event_loop import EventLoop
from duetime.scheduler.runtime.notices import EventLoopBlocked, LateReturn, ThreadLost, ThreadsExhausted
from duetime.scheduler.runtime.notifier import RunNotifier
from duetime.scheduler.worker.active_runs import ActiveRun
from duetime.scheduler.worker.watchdog import TIME_LIMIT_GRACE_S


class LostThreads:
    """Ends attempts without their handlers, and counts the threads that these keep. Thread-safe.

    `end` hands in such an attempt, `replace` starts another thread. `notifier` is called when `limit` threads are
    lost: a new process would do better.
    """

    def __init__(
        self,
        loop: EventLoop,
        *,
        limit: Callable[[], int],
        end: Callable[[ActiveRun], None],
        replace: Callable[[threading.Thread], None],
        notifier: RunNotifier,
    ) -> None:
        self._loop = loop
        self._limit = limit
        self._end = end
        self._replace = replace
        self._notifier = notifier
        self._replaced: dict[threading.Thread, bool] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return the number of lost threads; a blocked event loop counts as one."""
        return len(self._replaced) + self._loop.blocked

    def abandon(self, held: ActiveRun) -> None:
        """End an attempt whose handler did not stop at its time limit."""
        lost = self._replace_loop(held)  # before its thread goes on with another run
        if not held.call.leave():
            lost = self._lose(held)
        if lost and len(self) >= self._limit():
            self._notifier.noticed(ThreadsExhausted(len(self)))
            self._notifier.on_exhausted()

    def returned(self, held: ActiveRun, ending: AttemptResult) -> bool:
        """Discard the result of a lost handler; return whether its thread, the caller, has been replaced."""
        with self._lock:
            replaced = self._replaced.pop(threading.current_thread(), None)
        if replaced is not None:
            self._notifier.noticed(LateReturn(held.run_id, type(ending).__name__))
        return bool(replaced)

    def _replace_loop(self, held: ActiveRun) -> bool:
        """Replace the event loop if an async handler blocks it; return whether it did."""
        blocked = held.call.blocked_loop
        if blocked is None or not self._loop.replace(blocked):
            return False
        self._notifier.noticed(EventLoopBlocked(held.run_id, held.action, TIME_LIMIT_GRACE_S))
        return True

    def _lose(self, held: ActiveRun) -> bool:
        thread = held.thread
        if thread is None:
            return False
        with self._lock:  # a thread that returns now waits in `returned` for the end of its attempt
            if not held.abandon():
                return False
            self._replaced[thread] = replaced = len(self._replaced) < self._limit()
        self._end(held)
        self._notifier.noticed(ThreadLost(held.run_id, held.action, TIME_LIMIT_GRACE_S))
        if replaced:
            self._replace(thread)
        return True
