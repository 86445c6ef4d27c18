"""The threads of all workers in the queue in memory, and the worker that preempts for a run. Twin: lua/threads.lua."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from duetime.scheduler.queue.answers import ThreadUse
from duetime.scheduler.queue.constants import PREEMPTOR_HOLD_MS, THREADS_KNOWN_MS


class WorkerThreads:
    """Thread reports of workers. `now` is in milliseconds since 1970."""

    def __init__(self) -> None:
        self._reported: dict[str, tuple[ThreadUse, float]] = {}
        self._preemptors: dict[str, float] = {}

    def report(self, worker: str, threads: ThreadUse, granted: int, now: float) -> None:
        """Store the report of a worker, and the number of runs it was granted after that report."""
        busy = min(threads.busy + granted, threads.total)
        self._reported[worker] = (replace(threads, busy=busy), now)

    def known(self, now: float) -> dict[str, ThreadUse]:
        """Return recent reports by worker, and remove the others."""
        self._reported = {name: (use, at) for name, (use, at) in self._reported.items() if now - at <= THREADS_KNOWN_MS}
        return {name: use for name, (use, _) in self._reported.items()}

    def assign(self, late: Sequence[str], n: int, now: float) -> list[str]:
        """Return the first `n` runs without a preempting worker, and assign them for `PREEMPTOR_HOLD_MS`."""
        self._preemptors = {run_id: until for run_id, until in self._preemptors.items() if until > now}
        found = [run_id for run_id in late if run_id not in self._preemptors][:n]
        self._preemptors.update(dict.fromkeys(found, now + PREEMPTOR_HOLD_MS))
        return found
