"""The answers of a queue about itself: why a run has not started, what pools and threads are in use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from duetime.scheduler.rules.headroom import NO_HEADROOM, Headroom


@dataclass(frozen=True, slots=True)
class ThreadUse:
    """The threads of a worker, as it reports them: `busy` ones, and the `headroom` reserved for more urgent tiers.

    `preempted` counts its runs that were preempted since it started. `lost` counts threads, beyond `total`, whose
    handlers did not stop at their time limit. `withheld` counts idle ones that start nothing while the machine is short
    of memory or CPU.
    """

    total: int
    busy: int = 0
    headroom: Headroom = NO_HEADROOM
    preempted: int = 0
    lost: int = 0
    withheld: int = 0

    @property
    def idle(self) -> int:
        """The number of threads that may start a run now."""
        return self.total - self.busy - self.withheld


def sum_thread_use(each: Iterable[ThreadUse]) -> ThreadUse | None:
    """Add up the thread reports of several workers; None for no report."""
    found = list(each)
    if not found:
        return None
    return ThreadUse(
        sum(threads.total for threads in found),
        sum(threads.busy for threads in found),
        tuple(map(sum, zip(*(threads.headroom for threads in found), strict=True))),
        sum(threads.preempted for threads in found),
        sum(threads.lost for threads in found),
        sum(threads.withheld for threads in found),
    )


class Why(StrEnum):
    """The reason why a pool does not admit a run: unknown, short of units, too small for ever, or closed for now."""

    UNKNOWN = "unknown"
    SHORT = "short"
    TOO_SMALL = "too_small"
    HELD = "held"  # the free units are kept for an overdue run
    STOPPED = "stopped"  # a provider asked for a pause
    BREAKER = "breaker"


@dataclass(frozen=True, slots=True)
class Shortage:
    """A pool that keeps a run from starting: `needed` units, `free` of `capacity`; `helped_at` is the earliest remedy.

    `holders` are runs that hold units of it, ten at most; `held_for` is the late run that has a hold. `requested`:
    less urgent holders were requested to yield, and what they release is kept for the run.
    """

    pool: str
    why: Why
    needed: float
    free: float
    capacity: float
    helped_at: float | None = None
    holders: tuple[str, ...] = ()
    held_for: str | None = None
    requested: bool = False


@dataclass(frozen=True, slots=True)
class Explanation:
    """The place of a run in the queue: `status` is waiting, delayed, parked or leased.

    `ahead` counts earlier runs of its class, up to `MAX_COUNTED_AHEAD`. For a parked run, `shortage` is the shortage of
    the head of its class. `worker` holds a leased run, whose lease ends at `not_before` unless it is renewed. A delayed
    run waits until `not_before`, by the queue's clock.
    For a waiting or parked run, `threads` adds up the recent thread reports of the workers that know its action.
    `others_first`: the head of the class of a waiting run goes in turn, and it is the turn of another tenant.
    """

    status: str
    ahead: int = 0
    shortage: Shortage | None = None
    worker: str | None = None
    not_before: float | None = None
    threads: ThreadUse | None = None
    others_first: bool = False


@dataclass(frozen=True, slots=True)
class PoolUse:
    """Current use of a pool: units `used` (rate: taken from the bucket), `spent` in its window, `factor` by throttling.

    `state` is admitting, stopped (by a provider), tripped (breaker open), probing, or closed (no capacity now). `until`
    is when that state ends, None when time alone does not end it.
    """

    capacity: float
    used: float
    spent: float
    free: float
    factor: float
    parked: int
    state: str
    until: float | None = None


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts of runs: ready by tier (critical first), delayed, parked, leased; and the use of pools and threads.

    `parked` counts runs by the pool that their class is parked on. A pool made from a template is listed while in use.
    `threads` are by worker, from recent reports. `policy` is the version of the shares in force.
    """

    waiting: tuple[int, ...]
    delayed: int
    parked: int
    leased: int
    pools: Mapping[str, PoolUse]
    threads: Mapping[str, ThreadUse] = field(default_factory=dict)
    policy: int = 0
