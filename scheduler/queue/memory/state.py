"""The state of the queue in memory, and each step on it.

Twins: lua/state/state.lua, lua/leases/leases.lua, lua/leases/take.lua.

Each run is in one place: leased, delayed or waiting. No method locks or reads a clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from duetime.scheduler.queue.constants import (
    MAX_CLASSES_PER_TAKE,
    MAX_LEASES_PER_REAP,
    MAX_PREEMPTORS,
    MAX_PROMOTED_PER_TAKE,
    MAX_TIMERS_PER_TAKE,
)
from duetime.scheduler.queue.lanes import KnownActions
from duetime.scheduler.queue.memory.classes import RunClass, RunClasses, class_name
from duetime.scheduler.queue.memory.explain import explained, shortage, stats_of
from duetime.scheduler.queue.memory.lanes import Lanes
from duetime.scheduler.queue.memory.lazy_heap import LazyHeap
from duetime.scheduler.queue.memory.lease import Lease, Put
from duetime.scheduler.queue.memory.pool import LivePool
from duetime.scheduler.queue.memory.pools import LivePools
from duetime.scheduler.queue.memory.preemption import PoolPreemption
from duetime.scheduler.queue.memory.threads import WorkerThreads
from duetime.scheduler.queue.memory.turns import Rank
from duetime.scheduler.queue.memory.view import View
from duetime.scheduler.queue.port import Cancelled, Entry, Finish, Grant
from duetime.scheduler.queue.reports import Explanation, Shortage, Stats, ThreadUse, Why, sum_thread_use
from duetime.scheduler.rules.headroom import NO_HEADROOM
from duetime.scheduler.rules.limits.queue_time import QueueTime
from duetime.scheduler.rules.policies.decision import Look
from duetime.scheduler.rules.shares import ShareBalance, Shares, choose, count_dispatch, overdue


class QueueState:
    """Tokens are `epoch` and a serial number. `now` and `until` are in milliseconds since 1970."""

    def __init__(self, *, epoch: int, time: QueueTime) -> None:
        self.epoch = epoch
        self.shares = Shares()
        self.policy = 0
        self._balance = ShareBalance()
        self._serial = 0
        self.threads = WorkerThreads()
        self._waiting = RunClasses(Lanes(self.threads))
        self._leases: dict[str, Lease] = {}
        self._delayed: dict[str, tuple[Entry, float]] = {}
        self._by_time = LazyHeap[Rank](self._is_delayed)
        self.pools = LivePools(self._waiting, time)
        self.preemption = PoolPreemption(self._waiting, self.pools, self._leases)

    def held(self, run_id: str, token: str) -> Lease | None:
        """Return the lease that this token holds."""
        lease = self._leases.get(run_id)
        return lease if lease is not None and lease.token == token else None

    def put(self, entry: Entry, now: float) -> Put:
        lease = self._leases.get(entry.run_id)
        if lease is not None:
            lease.again = (entry, now + entry.delay)
            return Put.KEPT
        known = self._here(entry.run_id)
        if known is not None and class_name(known) == class_name(entry):
            return Put.KEPT
        if known is not None:
            self.cancel(entry.run_id, now)
        self._place(entry, now + entry.delay, now)
        return Put.ADDED if known is None else Put.MOVED

    def pass_time(self, now: float) -> None:
        """Advance time: promote delayed runs and fire pool timers."""
        for _ in range(MAX_PROMOTED_PER_TAKE):
            first = self._by_time.top()
            if first is None or first[0] > now:
                break
            self._waiting.add(self._delayed.pop(first[2])[0], now)
        for _ in range(MAX_TIMERS_PER_TAKE):
            if not self.pools.ring(now):
                break

    def grant(
        self,
        worker: str,
        n: int,
        now: float,
        until: float,
        *,
        threads: ThreadUse | None,
        actions: KnownActions,
        seen: list[Look] | None,
    ) -> tuple[tuple[Grant, ...], float | None, bool]:
        """Lease up to `n` runs, to a worker that has `actions`; add to `seen` what the first looks saw.

        Returns with them in how many seconds time alone may make another run ready, and whether to wake others.
        """
        self._waiting.begin_take(actions, now)
        view, granted = View(self._waiting, self.pools, actions, now, seen), list[Grant]()
        looks, headroom = 0, threads.headroom if threads else NO_HEADROOM
        while looks < MAX_CLASSES_PER_TAKE and (idle := n - len(granted)) > 0:
            if not self._look(worker, now, until, granted, view, heads=view.heads(headroom, idle)):
                break
            looks += 1
        left = any(view.best())
        self._waiting.lanes.took()
        if threads is not None:
            self.threads.report(worker, threads, len(granted), now, actions)
        again = view.is_cut_short or (looks == MAX_CLASSES_PER_TAKE and left)
        return tuple(granted), 0.0 if again else self._hint(now), left or view.moved > 0

    def assign_preemptors(
        self, n: int, tiers: tuple[int, int], before: float, now: float, actions: KnownActions
    ) -> tuple[tuple[int, ...], bool]:
        """Return the tiers of up to `n` runs that lack a thread, are late by `before` and await no preemption.

        Returns with them whether to wake other workers.
        """
        first, last = tiers
        view = View(self._waiting, self.pools, actions, now)
        late = [run for tier in range(first, last + 1) for run in self._late(view, tier, before, now)]
        assigned = self.threads.assign(late, n, now)
        return tuple(self._waiting.entry(run_id).tier for run_id in assigned), view.moved > 0

    def finish(self, end: Finish, now: float, jitter: float) -> bool:
        lease = self.held(end.run_id, end.token)
        if lease is not None:
            probed = self.pools.probed_by(lease.entry)
            pools = self._release(lease, end.used, now, end.began_after)
            results = [self.pools.learn(each, now, jitter, probed=each.pool in probed) for each in end.reports]
            learned = [pool for pool in results if pool is not None]
            self._wake(pools, now)
            self._wake({pool.name: pool for pool in learned}.values(), now)
            self._after(lease, [*pools, *learned], now)
        return lease is not None

    def give_back(self, run_id: str, token: str, delay: float, now: float) -> bool:
        if (lease := self.held(run_id, token)) is not None:
            pools = self._release(lease, dict.fromkeys(lease.entry.needs, 0.0), now)
            self._wake(pools, now)
            entry, not_before = lease.again or (lease.entry, 0.0)  # it may have a newer place already
            lease.again = (entry, max(not_before, now + delay))
            self._after(lease, pools, now)
        return lease is not None

    def reap(self, now: float) -> list[str]:
        over = sorted((lease.until, run_id) for run_id, lease in self._leases.items() if lease.until <= now)
        reaped = [run_id for _, run_id in over[:MAX_LEASES_PER_REAP]]
        for run_id in reaped:
            self.finish(Finish(run_id, self._leases[run_id].token), now, 0.0)
        return reaped

    def cancel(self, run_id: str, now: float) -> Cancelled:
        lease = self._leases.get(run_id)
        if lease is not None:
            lease.again = None
            return Cancelled.LEASED
        if (entry := self._remove(run_id)) is None:
            return Cancelled.ABSENT
        self.pools.drop_holds(entry, now)
        return Cancelled.REMOVED

    def rescore(self, run_id: str, key: float, now: float) -> bool:
        if run_id in self._delayed:
            entry, not_before = self._delayed[run_id]
            self._delayed[run_id] = (replace(entry, key=key), not_before)
            return True
        waiting = self._waiting.get(run_id)
        if waiting is not None and waiting.key != key:
            self._waiting.move(replace(waiting, key=key))
            self.pools.drop_holds(waiting, now, is_overdue=key < self.pools.time.wall)
        return waiting is not None

    def adopt(self, entry: Entry, token: str, worker: str, now: float, until: float) -> bool:
        if entry.run_id in self._leases or self._here(entry.run_id) is not None:
            return False
        self._lease(entry, worker, now, until, token)
        return True

    def shortage(self, entry: Entry, now: float) -> Shortage | None:
        return shortage(self.pools, self._waiting, entry, self._having, now)

    def explain(self, run_id: str, now: float) -> Explanation | None:
        lease, delayed = self._leases.get(run_id), self._delayed.get(run_id)
        if lease is not None:
            return Explanation("leased", worker=lease.worker, not_before=lease.until - self.pools.time.wall_lag)
        if delayed is not None:
            return Explanation("delayed", not_before=delayed[1] - self.pools.time.wall_lag)
        waiting = self._waiting.get(run_id)
        threads = sum_thread_use(self.threads.known(now, waiting.action).values()) if waiting else None
        return explained(self._waiting, run_id, lambda head: self.shortage(head, now), threads, self.pools.time.wall)

    def stats(self, now: float) -> Stats:
        found = stats_of(self._waiting, self.pools, now, delayed=len(self._delayed), leased=len(self._leases))
        return replace(found, threads=self.threads.known(now))

    def _here(self, run_id: str) -> Entry | None:
        return self._waiting.get(run_id) or self._delayed.get(run_id, (None, 0.0))[0]

    def _place(self, entry: Entry, not_before: float, now: float) -> None:
        if not_before > now:
            self._delayed[entry.run_id] = (entry, not_before)
            self._by_time.push((not_before, entry.created, entry.run_id))
        else:
            self._waiting.add(entry, now)

    def _remove(self, run_id: str) -> Entry | None:
        if self._waiting.get(run_id) is not None:
            return self._waiting.remove(run_id)
        return self._delayed.pop(run_id, (None, 0.0))[0]

    def _look(
        self, worker: str, now: float, until: float, granted: list[Grant], view: View, *, heads: list[Rank | None]
    ) -> bool:
        """Grant the best run of the chosen tier, or park its class; return False when there is nothing to examine."""
        keys, wall = [head[0] if head else None for head in heads], self.pools.time.wall
        tier = choose(self.shares, self._balance, keys, wall)
        head = heads[tier] if tier is not None else None
        head = view.in_turn(head, wall) if head is not None and not view.is_cut_short else None
        if tier is None or head is None:
            return False
        cls, entry = self._waiting.class_of(head[2]), self._waiting.entry(head[2])
        short = self.pools.short(entry, now)
        view.note(entry, self._balance, self.policy, short)
        if short is not None:
            self._park(cls, head, *short, now)
        else:
            self._waiting.start(head[2], now, out_of_turn=view.out_of_turn)
            count_dispatch(self.shares, self._balance, overdue(keys, wall), tier)
            self.pools.count_start(entry, self.shares)
            granted.append(self._lease(entry, worker, now, until))
        return True

    def _late(self, view: View, tier: int, before: float, now: float) -> list[str]:
        """Return the late runs of a tier that lack only a thread; park those that lack a pool."""
        for head in view.late_heads(tier, before, MAX_PREEMPTORS):
            if (short := self.pools.short(self._waiting.entry(head[2]), now)) is not None:
                self._park(self._waiting.class_of(head[2]), head, *short, now)
                view.moved += 1
        return view.late(tier, before, MAX_PREEMPTORS)

    def _park(self, cls: RunClass, head: Rank, pool: LivePool, why: Why, now: float) -> None:
        """Park a class on the pool that its head lacks."""
        entry, units = self._waiting.entry(head[2]), dict(cls.needs)[pool.name]
        self.pools.park(cls, pool, why, now)
        for other in (others := [self.pools.get(name, now) for name, _ in cls.needs if name != pool.name]):
            if pool.gives_nothing(units, cls.tier, why, now):
                other.drop_hold(head[2], cls.name)
            elif why is Why.SHORT and other.name < pool.name:
                # A release may bring this pool soon, and what admitted the run must not be gone by then.
                self.pools.hold(other, entry, self.shares.guaranteed[cls.tier - 1], now)
        self._wake(others, now)  # runs that it kept out of them may fit now

    def _lease(self, entry: Entry, worker: str, now: float, until: float, token: str = "") -> Grant:  # nosec B107 # none
        """Lease a run to a worker with all it needs, then unpark what still fits into its pools."""
        if not token:
            self._serial += 1
            token = f"{self.epoch}.{self._serial}"
        pools = [self.pools.reserve(name, entry, now) for name in sorted(entry.needs)]
        self._leases[entry.run_id] = Lease(entry, token, worker, now, until)
        self._wake(pools, now)
        return Grant(entry.run_id, token, entry.needs)

    def _release(self, lease: Lease, used: Mapping[str, float], now: float, began_after: float = 0.0) -> list[LivePool]:
        del self._leases[lease.entry.run_id]
        needs, began = sorted(lease.entry.needs), min(now, lease.granted + began_after)
        return [self.pools.release(name, lease, used.get(name), now, began=began) for name in needs]

    def _wake(self, pools: Iterable[LivePool], now: float) -> None:
        for pool in sorted(pools, key=lambda pool: pool.name):
            self.pools.wake(pool, now)

    def _after(self, lease: Lease, pools: Iterable[LivePool], now: float) -> None:
        """Place the run that was kept aside, and reset the pools' timers: released units let time help sooner."""
        if lease.again is not None:
            self._place(*lease.again, now)
        for pool in pools:
            self.pools.rest(pool, now)

    def _hint(self, now: float) -> float | None:
        first, timer = self._by_time.top(), self.pools.next_timer()
        times = [at for at in (first and first[0], timer) if at is not None]
        return max(0.0, min(times) - now) / 1000 if times else None

    def _having(self, pool: str) -> list[str]:
        return sorted(run_id for run_id, lease in self._leases.items() if pool in lease.entry.needs)

    def _is_delayed(self, rank: Rank) -> bool:
        delayed = self._delayed.get(rank[2])
        return delayed is not None and (delayed[1], delayed[0].created) == rank[:2]
