"""The port `DispatchQueue`: what every queue promises. tests/contracts/queue proves it of each implementation.

Times are milliseconds since 1970 as floats, because they order things; only `wait` takes seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Entry:
    """A run that may start: the smaller `key` goes first, `run_id` breaks ties, never before `not_before`.

    `needs` maps pools to units. All of them are reserved together, or none.
    """

    run_id: str
    key: float
    tier: int = 3
    needs: Mapping[str, int] = field(default_factory=dict)
    not_before: float = 0


@dataclass(frozen=True, slots=True)
class Take:
    """What a worker got: runs in the order they should start, each leased to it with its pools reserved.

    `generation` goes to `wait`; `hint` is in how many seconds something delayed comes up, None when nothing will.
    """

    run_ids: tuple[str, ...]
    generation: int
    hint: float | None = None


class Cancelled(StrEnum):
    """What cancelling found: it was waiting and is gone; a worker has it and must be told; it was not there."""

    REMOVED = "removed"
    LEASED = "leased"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Stats:
    """How many runs wait their turn, are delayed, stand behind a pool they lack, are leased; and each pool's use."""

    waiting: int
    delayed: int
    parked: int
    leased: int
    pools: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a run has not been handed out: `status` is waiting, delayed, parked or leased.

    For a parked one, `pool` is what the head of its class lacks: `needed` units against `free` of `capacity`.
    """

    status: str
    pool: str | None = None
    needed: int = 0
    free: int = 0
    capacity: int = 0


class DispatchQueue(Protocol):
    """Hands out due runs in order, each to one worker at a time. Every method may be called from any thread."""

    def put(self, entries: Sequence[Entry]) -> int:
        """Add runs and return how many were new; one that is already waiting stays as it is.

        One that is leased is kept aside, and takes its place as soon as that lease is finished: a run that is due
        again while the queue still hears of its last attempt is never lost.
        """

    def take(self, worker: str, n: int, lease: float) -> Take:
        """Lease up to `n` runs to `worker` for `lease` milliseconds, best first, with every pool they need.

        Whatever lacks a pool is stepped over. A run that needs an unknown pool, or more than its capacity, is held.
        """

    def wait(self, generation: int, timeout: float) -> None:
        """Return when the queue has changed since the take that gave `generation`, after `timeout` seconds at most."""

    def wake(self) -> None:
        """Let everyone in `wait` return."""

    def renew(self, worker: str, run_ids: Sequence[str], lease: float) -> set[str]:
        """Prolong the worker's leases from now, and return the runs that are not leased to it any more."""

    def finish(self, worker: str, run_id: str) -> bool:
        """Forget a run and release its pools. False, and nothing happens, when the worker does not hold its lease."""

    def give_back(self, worker: str, run_id: str, *, not_before: float = 0) -> bool:
        """Return a run unstarted: it keeps its key, so it comes before all that was behind it. False as in finish."""

    def reap(self) -> list[str]:
        """Forget the runs whose lease has run out, release their pools, and return them: the store decides on them."""

    def cancel(self, run_id: str) -> Cancelled:
        """Remove a run that is waiting; one that is leased stays with its worker."""

    def rescore(self, run_id: str, key: float) -> bool:
        """Give a waiting run another key; False when it is leased or not there."""

    def set_pool(self, name: str, capacity: int) -> None:
        """Create or resize a pool. What is reserved stays reserved; below that nothing more is granted."""

    def stats(self) -> Stats:
        """Count what is in the queue."""

    def explain(self, run_id: str) -> Explanation | None:
        """Say why a run has not been handed out, or that it has; None when the queue does not know it."""
