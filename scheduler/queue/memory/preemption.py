"""Preemption over pools in the queue in memory: which runs release units for a late one.

Twin: lua/threads/runs_to_preempt.lua.

A pool serves one late class at a time: what is released is promised to it, until one of its runs starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from duetime.scheduler.queue.constants import (
    MAX_PREEMPTORS,
    MAX_SIZES_PER_WAKE,
    MAX_WILLING_RUNS,
    PROMISE_MS,
    WILLING_KNOWN_MS,
)
from duetime.scheduler.queue.memory.classes import RunClass, RunClasses
from duetime.scheduler.queue.memory.lease import Lease
from duetime.scheduler.queue.memory.pool import LivePool
from duetime.scheduler.queue.memory.pools import LivePools
from duetime.scheduler.queue.port import Entry
from duetime.scheduler.queue.reports import Why
from duetime.scheduler.rules.limits.admission import Kind, available
from duetime.scheduler.rules.preemption import Holder, holders_to_ask
from duetime.scheduler.rules.shares import TIER_COUNT

_Turn = tuple[str, str]
"""A run and the token of its lease: a later lease of the run is another turn."""


class PoolPreemption:
    """Runs that are willing to yield, and those that were requested to. `now` is in milliseconds since 1970."""

    def __init__(self, waiting: RunClasses, pools: LivePools, leases: Mapping[str, Lease]) -> None:
        self._waiting = waiting
        self._pools = pools
        self._leases = leases
        self._willing: dict[_Turn, float] = {}
        self._requested: dict[_Turn, float] = {}

    def ask(self, willing: Sequence[str], before: float, now: float) -> tuple[str, ...]:
        """Store the willing runs of a worker; return those to preempt, for runs with a key up to `before`."""
        self._willing = {turn: at for turn, at in self._willing.items() if at >= now - WILLING_KNOWN_MS}
        self._requested = {turn: at for turn, at in self._requested.items() if at > now - PROMISE_MS}
        leases = {run_id: lease for run_id in willing if (lease := self._leases.get(run_id)) is not None}
        turns = {run_id: (run_id, lease.token) for run_id, lease in leases.items()}
        self._willing.update(dict.fromkeys(turns.values(), now))
        for name in sorted({name for lease in leases.values() for name in lease.entry.needs}):
            self._help_first(self._pools.get(name, now), before, now)
        return tuple(run_id for run_id, turn in turns.items() if turn in self._requested)

    def _help_first(self, pool: LivePool, before: float, now: float) -> None:
        """Request units for the first late class of a pool that others can help, unless one is being helped."""
        if pool.promised_class(self._waiting, now) is None:
            for cls in self._late(pool, before):
                if self._help(cls, now):
                    break

    def _late(self, pool: LivePool, before: float) -> list[RunClass]:
        """Return the late classes that are parked on a pool, the most urgent first."""
        sizes = [(tier, *each) for tier, units in enumerate(pool.units[: TIER_COUNT - 1], 1) for each in units]
        firsts = [(size[0], pool.sizes[size].heads.first(MAX_PREEMPTORS)) for size in sizes[:MAX_SIZES_PER_WAKE]]
        late = sorted((tier, head) for tier, heads in firsts for head in heads if head[0] <= before)
        return [self._waiting.class_of(head[2]) for _, head in late[:MAX_PREEMPTORS]]

    def _help(self, cls: RunClass, now: float) -> bool:
        """Promise a class what it lacks, and request that runs release it; False when they hold too little."""
        missing = self._missing(cls, now)
        left = {name: units - self._released(name) for name, units in missing.items()}
        holders = holders_to_ask(left, cls.tier, self._holders()) if missing else []
        if not missing or (not holders and any(units > 0 for units in left.values())):
            return False
        self._requested.update({(run_id, self._leases[run_id].token): now for run_id in holders})
        for name in missing:
            pool = self._pools.keep(self._pools.get(name, now))
            pool.promise(cls.name, now + PROMISE_MS)
            self._pools.remind(pool, pool.promised_until)
        return True

    def _missing(self, cls: RunClass, now: float) -> dict[str, float]:
        """Return the units that the head of a class lacks, by pool; none when released units cannot help it."""
        assert cls.head is not None
        entry, found = self._waiting.entry(cls.head[2]), dict[str, float]()
        if self._waiting.is_unserved(entry.run_id, now):
            return {}
        for name, units in cls.needs:
            pool = self._pools.get(name, now)
            why = pool.lacks(units, entry, self._waiting, self._pools.time)
            if why is not None:
                if pool.limits is None or pool.limits.kind is not Kind.SLOTS or why is not Why.SHORT:
                    return {}
                if pool.gives_nothing(units, cls.tier, why, now) or self._is_kept_for_another(pool, entry):
                    return {}
                found[name] = units - available(pool.limits, pool.at(now), cls.tier, now)
        return found

    def _is_kept_for_another(self, pool: LivePool, entry: Entry) -> bool:
        """Whether another class is being helped, or an overdue run that is as urgent has a hold."""
        if pool.promised_class(self._waiting, self._pools.time.now) is not None:
            return True
        holder = pool.held_for(entry, self._waiting, self._pools.time)
        return holder is not None and holder.tier <= entry.tier

    def _released(self, name: str) -> int:
        """Return the units of a pool that runs were requested to release and still hold."""
        return sum(lease.entry.needs.get(name, 0) for lease in self._still_held(self._requested))

    def _holders(self) -> list[Holder]:
        turns = sorted((at, turn) for turn, at in self._willing.items())[:MAX_WILLING_RUNS]
        leases = self._still_held(turn for _, turn in turns if turn not in self._requested)
        return [Holder(each.entry.run_id, each.entry.tier, each.entry.needs, each.granted) for each in leases]

    def _still_held(self, turns: Iterable[_Turn]) -> list[Lease]:
        leases = [(self._leases.get(run_id), token) for run_id, token in turns]
        return [lease for lease, token in leases if lease is not None and lease.token == token]
