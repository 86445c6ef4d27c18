"""The port `DispatchQueue`: what every queue promises. tests/contracts/queue proves it of each implementation.

Times are milliseconds since 1970 as floats, because they order things; only `wait` and `Take.hint` are in seconds. Each
method may raise `QueueLost` when what the queue held is gone, and `QueueUnavailable` when it cannot be reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from duetime.scheduler.rules.headroom import NO_HEADROOM, Headroom
from duetime.scheduler.rules.limits.admission import Limits
from duetime.scheduler.rules.limits.breaker import Report
from duetime.scheduler.rules.shares import TIERS


class QueueLost(Exception):
    """The queue holds nothing any more, or never did: it has to be rebuilt from the database."""


class QueueUnavailable(Exception):
    """The queue cannot be reached, or did not answer in time: what was asked may have happened or not."""


class QueueTaken(QueueUnavailable):
    """The queue is in use by another database."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A run that may start, `delay` after it is put: the smaller `key` goes first, then `created`, then `run_id`.

    `delay` is in milliseconds of the queue's own clock, which may be another than the database's. `needs` maps pools to
    units: all of them are reserved together, or none. Tenants of one tier take turns. A run with `by_deadline` goes by
    its key alone until that is past, and so does one without a tenant. Runs of one tier and tenant with equal needs are
    a class.
    """

    run_id: str
    key: float
    tier: int = 3
    needs: Mapping[str, int] = field(default_factory=dict)
    created: float = 0
    delay: float = 0
    tenant: str = ""
    by_deadline: bool = False


@dataclass(frozen=True, slots=True)
class Grant:
    """A run leased to a worker with all its pools reserved; `token` proves it, and no two grants have the same."""

    run_id: str
    token: str
    needs: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Take:
    """The runs that a worker was granted, in the order to start them.

    `generation` goes to `wait`; `hint` is in how many seconds time alone may bring something up: 0 at once, None never.
    """

    grants: tuple[Grant, ...] = ()
    generation: int = 0
    hint: float | None = None

    @property
    def run_ids(self) -> tuple[str, ...]:
        return tuple(grant.run_id for grant in self.grants)


@dataclass(frozen=True, slots=True)
class ThreadUse:
    """The threads of a worker, as it reports them: how many are `busy`, and the `headroom` left to more urgent runs.

    `preempted` counts its runs that gave way to more urgent ones since it started, `lost` the threads beside these that
    handlers keep which did not stop at their time limit.
    """

    total: int
    busy: int = 0
    headroom: Headroom = NO_HEADROOM
    preempted: int = 0
    lost: int = 0


def added_up(each: Iterable[ThreadUse]) -> ThreadUse | None:
    """Add up the threads of several workers, None of none."""
    found = list(each)
    if not found:
        return None
    return ThreadUse(
        sum(threads.total for threads in found),
        sum(threads.busy for threads in found),
        tuple(map(sum, zip(*(threads.headroom for threads in found), strict=True))),
        sum(threads.preempted for threads in found),
        sum(threads.lost for threads in found),
    )


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of a leased run: what it `used` of rates and budgets (else what it reserved), what it learned."""

    run_id: str
    token: str
    used: Mapping[str, float] = field(default_factory=dict)
    reports: tuple[Report, ...] = ()


class Cancelled(StrEnum):
    """The result of cancelling: the run was waiting and is gone; a worker has it and must be told; it was not there."""

    REMOVED = "removed"
    LEASED = "leased"
    ABSENT = "absent"


class Why(StrEnum):
    """Why a pool does not admit a run: no such pool, it has too little, it will never have enough, or it is shut."""

    UNKNOWN = "unknown"
    SHORT = "short"
    TOO_SMALL = "too_small"
    HELD = "held"  # an overdue run has first call
    STOPPED = "stopped"  # a provider said: not before then
    BREAKER = "breaker"


@dataclass(frozen=True, slots=True)
class Shortage:
    """The pool that keeps a run from starting: `needed` units against `free` of `capacity`, until `helped_at` at least.

    `holders` are runs that have units of it now, ten at most; `held_for` is the overdue run that has first call.
    """

    pool: str
    why: Why
    needed: float
    free: float
    capacity: float
    helped_at: float | None = None
    holders: tuple[str, ...] = ()
    held_for: str | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Where a run is: `status` is waiting, delayed, parked or leased.

    `ahead` are runs of its own class that go first, counted up to `MOST_AHEAD`. For a parked one `shortage` is what the
    head of its class lacks; `worker` has a leased one, and a delayed one waits until `not_before`, by the clock of the
    queue. For a waiting one `threads` adds up the workers, where any reported its threads lately.
    """

    status: str
    ahead: int = 0
    shortage: Shortage | None = None
    worker: str | None = None
    not_before: float | None = None
    threads: ThreadUse | None = None


@dataclass(frozen=True, slots=True)
class PoolUse:
    """A pool now: units `used` (of a rate: taken from the bucket), `spent` in the window, and what throttling left.

    `state` is admitting, stopped (a provider said so), tripped (the breaker is open), probing or closed (there is none
    of it now); `until` is when that ends, where time alone ends it.
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
    """How many runs wait their turn by tier (critical first), are delayed, parked, leased; each pool, and the threads.

    `parked` counts runs whose class stands behind a pool. Pools made on use are counted where they are in use.
    `threads` are by worker, of those that reported them lately.
    """

    waiting: tuple[int, ...]
    delayed: int
    parked: int
    leased: int
    pools: Mapping[str, PoolUse]
    threads: Mapping[str, ThreadUse] = field(default_factory=dict)


class DispatchQueue(Protocol):
    """Hands out due runs in order, each to one worker at a time. Every method may be called from any thread."""

    def put(self, entries: Sequence[Entry]) -> int:
        """Add runs and return how many were new; of one that is named twice the first counts.

        One that is waiting already stays as it is, unless it needs something else by now: then it takes its place
        among those that do. So putting all that is ready now and then is enough for what changes for many at once.
        One that is leased is kept aside, and takes its place as soon as that lease is finished: a run that is due
        again while the queue still hears of its last attempt is never lost.
        """

    def take(self, worker: str, n: int, lease: float, *, nonce: str = "", threads: ThreadUse | None = None) -> Take:
        """Lease up to `n` runs to `worker` for `lease` ms, best first, with every pool they need.

        `rules.shares` choose the tier, `rules.turns` the tenant, the key its run. A class short of a pool is parked
        there and costs nothing until the pool changes. One that needs an unknown pool, or more than it has, is held.
        Repeating the last take with the same `nonce` returns the same grants again, less those that have ended.

        With `threads`, `n` is how many of them are idle, and a run starts only while more are idle than the headroom of
        its tier; tiers that may not start count as if they had nothing that may.
        """

    def preemptors(
        self, worker: str, n: int, tiers: tuple[int, int], notice: float, *, threads: ThreadUse | None = None
    ) -> tuple[int, ...]:
        """Return the tiers of up to `n` runs for which this worker should make room, the most urgent first.

        They are of `tiers` (first and last), wait for nothing but a thread, and are past their key in `notice` ms.
        Each is returned to one worker only, and to nobody else for `PREEMPTOR_HOLD_MS`.
        """

    def wait(self, generation: int, timeout: float, *, tier: int = TIERS) -> None:
        """Return when the queue has changed since the take that gave `generation`, after `timeout` seconds at most.

        It may go on when nothing changed but for runs less urgent than `tier`.
        """

    def wake(self) -> None:
        """Let everyone in `wait` of this process return."""

    def renew(self, worker: str, tokens: Mapping[str, str], lease: float) -> set[str]:
        """Prolong the leases of `tokens` (by run) from now, and return the runs that these tokens do not hold."""

    def finish(self, worker: str, ended: Sequence[Finish], *, jitter: float = 0.0) -> set[str]:
        """Forget runs and release their pools, settling what they really used and learning from their reports.

        Returns the runs that these tokens do not hold: nothing happened to those. `jitter`, 0 to 1, spreads pauses.
        """

    def give_back(self, worker: str, run_id: str, token: str, *, delay: float = 0) -> bool:
        """Return a run unstarted, with all it had reserved: it keeps its key, and waits for `delay` ms first.

        False when the token does not hold it.
        """

    def reap(self) -> list[str]:
        """Forget up to 100 runs whose lease has run out, release their pools, and return them: the store decides."""

    def cancel(self, run_id: str) -> Cancelled:
        """Remove a run that is waiting; one that is leased stays with its worker."""

    def rescore(self, run_id: str, key: float) -> bool:
        """Give a waiting run another key; False when it is leased or not there."""

    def set_pool(self, name: str, limits: Limits | None, *, spent: float = 0.0, empty: bool = False) -> None:
        """Create or change a pool; None removes it. What is reserved stays reserved; runs that need it are held.

        A name that ends in `:*` is the template of pools made on use: `key:*` of `key:customer-42`, until nothing of
        them is in use. `spent` and `empty` are for a new pool: what its window has seen, a bucket with nothing in it.
        """

    def can_admit(self, entry: Entry) -> Shortage | None:
        """Return what would keep the run from starting now, None when nothing would. Changes nothing."""

    def reserve(self, worker: str, entry: Entry, lease: float) -> Grant | None:
        """Lease one run out of turn with every pool it needs, all or nothing; None when it cannot be admitted now.

        A run that is waiting leaves its place for it; one that is leased already gives None.
        """

    def stats(self) -> Stats:
        """Count what is in the queue."""

    def explain(self, run_id: str) -> Explanation | None:
        """Say why a run has not been handed out, or that it has; None when the queue does not know it."""

    def begin_rebuild(self, owner: str) -> bool:
        """Empty the queue for `owner` to fill it again; False while someone else does (for 30 s at most).

        Until `end_rebuild`, take gives nothing, and renew, finish, give_back and reserve raise QueueLost.
        """

    def adopt(self, worker: str, entry: Entry, token: str, lease: float) -> bool:
        """Take up a run that the store says is running, with what it has reserved; False when it is here already."""

    def end_rebuild(self, owner: str) -> bool:
        """Hand out runs again; False when the rebuild was lost meanwhile, and has to begin anew."""
