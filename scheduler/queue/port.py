"""The port `DispatchQueue`: the promises of every queue. tests/contracts/queue proves them for each implementation.

Times are milliseconds since 1970 as floats; only `wait` and `Take.hint` are in seconds. Each method may raise
`QueueLost` when the content of the queue is gone, and `QueueUnavailable` when the queue cannot be reached.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from duetime.scheduler.queue.lanes import KnownActions
from duetime.scheduler.queue.reports import Explanation, Stats, ThreadUse
from duetime.scheduler.rules.limits.admission import Limits
from duetime.scheduler.rules.limits.breaker import Report
from duetime.scheduler.rules.policies.decision import Look
from duetime.scheduler.rules.shares import TIER_COUNT, Shares


class QueueLost(Exception):
    """The queue is empty after a restart, an eviction or a takeover: rebuild it from the database."""


class QueueDamaged(QueueLost):
    """The queue holds what it cannot work with, or misses what belongs together: refill it from the database."""


class QueueUnavailable(Exception):
    """The queue cannot be reached or did not answer in time: the call may or may not have taken effect."""


class QueueTaken(QueueUnavailable):
    """The queue is in use by another database."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A run that may start `delay` ms after it is put; sorted by `key`, then `created`, then `run_id`, smallest first.

    `delay` counts on the queue's own clock, which may differ from the database's. `needs` maps pools to units; all of
    them are reserved together, or none. Runs of one tier, tenant, action and needs form a class. Tenants of one tier
    take turns. A run without a tenant goes by its key alone. So does a run `by_deadline` whose key is not past, while
    `rules.turns` let its tenant go out of turn. Only workers that know its `action` take a run; without an action every
    worker may.
    """

    run_id: str
    key: float
    tier: int = 3
    needs: Mapping[str, int] = field(default_factory=dict)
    created: float = 0
    delay: float = 0
    tenant: str = ""
    by_deadline: bool = False
    action: str = ""


@dataclass(frozen=True, slots=True)
class Grant:
    """A run leased to a worker with all its pools reserved; `token`, unique to this grant, proves the lease."""

    run_id: str
    token: str
    needs: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Take:
    """The runs granted to a worker, in the order to start them.

    Pass `generation` to `wait`. Time alone may make another run ready in `hint` seconds: 0 at once, None never. Nothing
    was granted before `asked_at`, in monotonic seconds; None stands for when the call began. `looks` are the first
    ones, of a take that records them.
    """

    grants: tuple[Grant, ...] = ()
    generation: int = 0
    hint: float | None = None
    asked_at: float | None = None
    looks: tuple[Look, ...] = ()

    @property
    def run_ids(self) -> tuple[str, ...]:
        return tuple(grant.run_id for grant in self.grants)


@dataclass(frozen=True, slots=True)
class QueueChange:
    """Any change of the queue since the take that returned `generation`, awaited for `timeout` seconds at most."""

    generation: int
    timeout: float


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of a leased run: units it `used` of rates and budgets (default: all reserved), reports on its pools.

    Its handler began `began_after` ms after the grant; sliding windows count its use from then on.
    """

    run_id: str
    token: str
    used: Mapping[str, float] = field(default_factory=dict)
    reports: tuple[Report, ...] = ()
    began_after: float = 0.0


class Cancelled(StrEnum):
    """Result of a cancel: the waiting run was removed, a worker holds it and must be notified, or the run is absent."""

    REMOVED = "removed"
    LEASED = "leased"
    ABSENT = "absent"


class DispatchQueue(Protocol):
    """Grant due runs in order, each to one worker at a time. Every method may be called from any thread."""

    def put(self, entries: Sequence[Entry]) -> int:
        """Add runs and return how many were new; the first entry of a repeated run counts.

        A waiting run stays as it is, unless its needs have changed: then it moves to its new class. So a periodic put
        of all ready runs is enough after a change of many. A leased run is kept aside and placed when its lease ends.
        So a run that is due again is not lost while its last result is still on its way.
        """

    def take(
        self,
        worker: str,
        n: int,
        lease: float,
        *,
        nonce: str = "",
        threads: ThreadUse | None = None,
        after: QueueChange | None = None,
        actions: KnownActions = None,
        record: bool = False,
    ) -> Take:
        """Lease up to `n` runs to `worker` for `lease` ms, best first, with every pool they need.

        Only runs of `actions`, None for all. Others stay where they are, in their order and with their age. They keep
        no run of these actions from starting; their holds count while a worker that has them reports.

        `rules.shares` choose the tier, `rules.turns` the tenant, the key its run. A class short of a pool is parked on
        it and costs nothing until that pool changes. A run that needs an unknown pool, or more than its capacity, is
        held. Repeating the last take with the same `nonce` returns the same grants, less those that have ended.

        With `after`, first wait as `wait` does; in Redis both are one round trip. It may be somewhat early.

        With `threads`, `n` counts idle threads, and a run starts only while more are idle than the headroom of its
        tier. A tier that may not start counts as empty.

        With `record`, it returns what it saw at each look, up to `MAX_LOOKS_RECORDED`; a repeated take returns none.
        """

    def assign_preemptors(
        self,
        worker: str,
        n: int,
        tiers: tuple[int, int],
        notice: float,
        *,
        threads: ThreadUse | None = None,
        actions: KnownActions = None,
    ) -> tuple[int, ...]:
        """Assign to a worker up to `n` runs for which it should preempt others; return their tiers, most urgent first.

        The runs are of `actions` and of `tiers` (first and last), lack only a thread, and reach their key within
        `notice` ms. Each is assigned to one worker only, for `PREEMPTOR_HOLD_MS`.
        `threads` is the report of this worker, as at a take.
        """

    def runs_to_preempt(self, willing: Sequence[str], notice: float) -> tuple[str, ...]:
        """Return which of the `willing` runs of a worker should yield, so that late runs get the units they hold.

        A late run is parked on a pool of slots and reaches its key within `notice` ms. Runs of all workers count that
        were willing in the last `WILLING_KNOWN_MS`; `rules.preemption` chooses. Units that they release are kept for
        the class of the late run for `PROMISE_MS`; a pool serves one class at a time.
        """

    def wait(self, generation: int, timeout: float, *, tier: int = TIER_COUNT, actions: Collection[str] = ()) -> None:
        """Return when the queue has changed since the take that returned `generation`, or after `timeout` seconds.

        It may ignore changes that concern only runs less urgent than `tier`. It may ignore those of only such actions
        as some workers do not know and as are not among `actions`.
        """

    def wake(self) -> None:
        """End every `wait` of this process."""

    def renew(self, worker: str, tokens: Mapping[str, str], lease: float) -> set[str]:
        """Prolong the leases of `tokens` (by run) to `lease` ms from now; return the runs that they do not hold."""

    def finish(self, worker: str, ended: Sequence[Finish], *, jitter: float = 0.0) -> set[str]:
        """Remove runs, release their pools, settle the units really used and learn from their reports.

        Returns the runs that these tokens do not hold; those are left unchanged. `jitter`, 0 to 1, spreads the pauses.
        """

    def give_back(self, worker: str, run_id: str, token: str, *, delay: float = 0) -> bool:
        """Return a run unstarted, with all it had reserved; it keeps its key and is delayed for `delay` ms.

        Returns False when the token does not hold the run.
        """

    def reap(self) -> list[str]:
        """Remove up to 100 runs whose lease has expired, release their pools and return them; the store decides."""

    def cancel(self, run_id: str) -> Cancelled:
        """Remove a waiting run; a leased run stays with its worker."""

    def rescore(self, run_id: str, key: float) -> bool:
        """Change the key of a waiting run; return False when the run is leased or absent."""

    def set_pool(self, name: str, limits: Limits | None, *, spent: float = 0.0, empty: bool = False) -> None:
        """Create or change a pool; None removes it. Reserved units stay reserved; runs that need it are held.

        A name that ends in `:*` is a template, as `key:*` for `key:customer-42`; such a pool exists while it is in
        use. `spent` and `empty` initialise a new pool: the units its window has seen, and an empty bucket. A
        sliding window that counts what it has seen needs no empty bucket.
        """

    def set_shares(self, shares: Shares, version: int) -> None:
        """Use the `shares` of this version of the policy, unless a newer one is in force; a rebuild forgets them.

        Tiers keep the dispatches that they have saved up.
        """

    def stats(self) -> Stats:
        """Count what is in the queue."""

    def explain(self, run_id: str) -> Explanation | None:
        """Return the place of a run and why it has not started; None when the queue does not hold it."""

    def begin_rebuild(self, owner: str, *, damage: str = "") -> bool:
        """Empty the queue so that `owner` can fill it; False while another process rebuilds (for 30 s at most).

        With `damage`, the reason, also False when the queue was emptied in the last ten seconds.

        Until `end_rebuild`, take grants nothing, and renew, finish and give_back raise QueueLost.
        """

    def adopt(self, worker: str, entry: Entry, token: str, lease: float) -> bool:
        """Lease a run that the store records as running, with all it reserved; False when the queue already has it."""

    def end_rebuild(self, owner: str) -> bool:
        """Resume granting runs; False when another process took over the rebuild: then `owner` must begin again."""
