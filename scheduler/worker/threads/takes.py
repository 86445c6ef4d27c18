"""The worker as its broker sees it: it claims the runs that the broker takes, and says how to take them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from duetime.scheduler.queue import Grant
from duetime.scheduler.rules.headroom import DEFAULT_HEADROOM, HeadroomRule
from duetime.scheduler.worker.machine_load import all_of_them
from duetime.scheduler.worker.threads.records import NO_RECORDS, TakeRecorder


class TakenRuns(Protocol):
    """The worker, as its broker sees it: it claims runs that were taken, and decides which threads they get."""

    @property
    def lost_threads(self) -> int:
        """The number of threads that do not return."""

    def claim(self, grants: Sequence[Grant], taken_at: float) -> Iterable[str]:
        """Start runs in the database, taken at a monotonic time, and return the ids of the started ones.

        The others are dropped. When it raises, nothing has started, and all runs return to the queue with a delay.
        """

    def line_up(self, run_ids: Sequence[str]) -> Sequence[str]:
        """Return the runs to call a thread for, of those that were claimed and those that waited before."""

    def let_go(self) -> None:
        """Hand back the runs that were claimed ahead, since their threads do not return."""


@dataclass(frozen=True, slots=True)
class TakeOptions:
    """The terms on which `worker` takes runs: `threads`, a lease in milliseconds, and its `actions` (None: all).

    `allowance` returns how many threads to use now, `headroom` how many of these are reserved for urgent runs.
    """

    worker: str
    threads: int
    lease_ms: float
    actions: Collection[str] | None = None
    headroom: HeadroomRule = DEFAULT_HEADROOM
    allowance: Callable[[int], int] = all_of_them
    recorder: TakeRecorder = NO_RECORDS
