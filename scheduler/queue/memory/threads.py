"""The threads of all workers in the queue in memory, and the worker that preempts for a run.

Twin: lua/threads/threads.lua.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from duetime.scheduler.queue.constants import PREEMPTOR_HOLD_MS, THREADS_KNOWN_MS
from duetime.scheduler.queue.lanes import KnownActions, knows
from duetime.scheduler.queue.reports import ThreadUse


class WorkerThreads:
    """Thread reports of workers. `now` is in milliseconds since 1970."""

    def __init__(self) -> None:
        self._reported: dict[str, tuple[ThreadUse, float, KnownActions]] = {}
        self._preemptors: dict[str, float] = {}

    def report(self, worker: str, threads: ThreadUse, granted: int, now: float, actions: KnownActions = None) -> None:
        """Store the report of a worker that has `actions`, and the number of runs it was granted after that."""
        busy = min(threads.busy + granted, threads.total)
        self._reported[worker] = (replace(threads, busy=busy), now, actions)

    def known(self, now: float, action: str = "") -> dict[str, ThreadUse]:
        """Return the recent reports of workers that know an action, and remove old reports."""
        self._reported = {
            name: report for name, report in self._reported.items() if now - report[1] <= THREADS_KNOWN_MS
        }
        return {name: use for name, (use, _, actions) in self._reported.items() if knows(actions, action)}

    def serve(self, action: str, now: float) -> bool:
        """Whether a worker that has an action has reported lately."""
        return any(now - at <= THREADS_KNOWN_MS and knows(known, action) for _, at, known in self._reported.values())

    def assign(self, late: Sequence[str], n: int, now: float) -> list[str]:
        """Return the first `n` runs without a preempting worker, and assign them for `PREEMPTOR_HOLD_MS`."""
        self._preemptors = {run_id: until for run_id, until in self._preemptors.items() if until > now}
        found = [run_id for run_id in late if run_id not in self._preemptors][:n]
        self._preemptors.update(dict.fromkeys(found, now + PREEMPTOR_HOLD_MS))
        return found
