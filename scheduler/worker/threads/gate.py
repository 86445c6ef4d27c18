"""Gives claimed runs to threads, and keeps the headroom of threads free of them.

A message of Dramatiq calls an idle thread for one run. Runs without an idle thread, most of them claimed ahead, wait in
line. A thread whose run has ended takes the next one from there, without a message and without the consumer.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable

from duetime.scheduler.rules.headroom import Headroom, may_start
from duetime.scheduler.worker.active_runs import ActiveRun
from duetime.scheduler.worker.capacity import ThreadCapacity


class ThreadGate:
    """Lets threads start runs, each run once; only runs that were lined up here start."""

    def __init__(self, idle: ThreadCapacity, headroom: Callable[[], Headroom]) -> None:
        self._idle = idle
        self._headroom = headroom
        self._running: dict[str, ActiveRun] = {}
        """The runs that have a thread, or for which one has been called."""
        self._line: deque[ActiveRun] = deque()
        self._lock = threading.Lock()

    def line_up(self, claimed: Iterable[ActiveRun]) -> list[str]:
        """Put claimed runs in line, and return those to call an idle thread for."""
        with self._lock:
            self._line.extend(claimed)
            return [held.run_id for held in iter(self._next, None)]

    def run(
        self, run_id: str, run: Callable[[ActiveRun], bool], failed: Callable[[ActiveRun, BaseException], None]
    ) -> None:
        """Run the claim that this thread was called for, then those in line.

        `run` returns whether its thread may continue with another run. Should it raise, `failed` ends the run, and the
        thread continues.
        """
        with self._lock:
            following = self._running.get(run_id)
        if following is not None and not following.begin():
            following = self._leave(following, may_continue=True)
        while following is not None:
            current, may_continue = following, True
            try:
                may_continue = run(current)
            except BaseException as error:  # noqa: BLE001 - a run without a thread would stay `running` for ever
                failed(current, error)
            following = self._leave(current, may_continue=may_continue)

    def clear(self) -> None:
        """Forget the runs in line, which were handed back."""
        with self._lock:
            cleared = len(self._line)
            self._line.clear()
        self._idle.give(cleared)

    def replaced(self, lost_thread: threading.Thread) -> None:
        """Count the run of a lost thread no more: another thread has taken its place."""
        with self._lock:
            self._running = {run_id: held for run_id, held in self._running.items() if held.thread is not lost_thread}

    def _leave(self, ended: ActiveRun, *, may_continue: bool) -> ActiveRun | None:
        """Return the run in line that this thread starts now."""
        with self._lock:
            self._forget(ended)
            while may_continue and (found := self._next()) is not None:
                self._idle.give(1)  # for the run before it, which ended or was handed back
                if found.begin():
                    return found
                self._forget(found)
            return None

    def _forget(self, ended: ActiveRun) -> None:
        """Free the thread of a run; a lost thread that returns has none, and its run may have started again."""
        if self._running.get(ended.run_id) is ended:
            del self._running[ended.run_id]

    def _next(self) -> ActiveRun | None:
        """Reserve a thread for the first run in line that may start now."""
        if not self._line:
            return None
        idle, headroom = self._idle.total - len(self._running), self._headroom()
        found = next((held for held in self._line if self._fits(held, headroom, idle)), None)
        if found is not None:
            self._line.remove(found)
            self._running[found.run_id] = found
        return found

    def _fits(self, held: ActiveRun, headroom: Headroom, idle: int) -> bool:
        return held.run_id not in self._running and may_start(headroom, held.claim.task.priority.rank, idle)
