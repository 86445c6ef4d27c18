"""Explanations and counts of the queue in memory: the place of a run, its shortage, the use of each pool."""

from __future__ import annotations

from collections.abc import Callable

from duetime.scheduler.queue.constants import MAX_HOLDERS_SHOWN
from duetime.scheduler.queue.memory.classes import RunClass, RunClasses, class_name
from duetime.scheduler.queue.memory.pool import LivePool
from duetime.scheduler.queue.memory.pools import LivePools
from duetime.scheduler.queue.port import Entry
from duetime.scheduler.queue.reports import Explanation, PoolUse, Shortage, Stats, ThreadUse, Why
from duetime.scheduler.rules.limits.admission import Limits, PoolState, available, capacity, opens_at, units_in_use
from duetime.scheduler.rules.limits.queue_time import QueueTime
from duetime.scheduler.rules.shares import TIER_COUNT
from duetime.scheduler.rules.turns import goes_out_of_turn


def shortage(
    pools: LivePools, waiting: RunClasses, entry: Entry, having: Callable[[str], list[str]], now: float
) -> Shortage | None:
    """Return the shortage of a run now, None when it may start; `having` returns the runs that hold units of a pool."""
    short = pools.short(entry, now)
    if short is None:
        return None
    pool, why = short
    units, holders = entry.needs[pool.name], tuple(having(pool.name)[:MAX_HOLDERS_SHOWN])
    helped_at = None if why in (Why.HELD, Why.TOO_SMALL) else pool.helped_at(units, entry.tier, now)
    if pool.limits is None:
        return Shortage(pool.name, why, units, 0.0, 0.0, holders=holders)
    promised = pool.promised_class(waiting, now)
    requested = promised is not None and promised.name == class_name(entry)
    holder = pool.held_for(entry, waiting, pools.time) if promised is None and why is Why.HELD else None
    first = promised.head[2] if promised is not None and promised.head is not None else None
    return Shortage(
        pool.name,
        why,
        units,
        available(pool.limits, pool.at(now), entry.tier, now),
        capacity(pool.limits, now),
        helped_at=_shown(helped_at, pools.time),
        holders=holders,
        held_for=(holder.run_id if holder else first) if why is Why.HELD else None,
        requested=requested,
    )


def explained(
    waiting: RunClasses, run_id: str, lacks: Callable[[Entry], Shortage | None], threads: ThreadUse | None, wall: float
) -> Explanation | None:
    """Explain a run that is neither delayed nor leased; `lacks` returns the shortage of the head of its class."""
    if waiting.get(run_id) is None:
        return None
    cls, ahead = waiting.class_of(run_id), waiting.ahead(run_id)
    head = cls.head
    if cls.parked_at is None or head is None:
        return Explanation("waiting", ahead, threads=threads, others_first=_others_first(waiting, cls, wall))
    return Explanation("parked", ahead, lacks(waiting.entry(head[2])), threads=threads)


def _others_first(waiting: RunClasses, cls: RunClass, wall: float) -> bool:
    """Whether the head of a class goes in turn while it is the turn of another tenant."""
    first, head = waiting.ring_in(cls.lane, cls.tier).first() if cls.tenant else None, cls.head
    if first is None or head is None or waiting.class_of(first[2]).tenant == cls.tenant:
        return False
    return waiting.is_barred(head, first) or not goes_out_of_turn(cls.by_deadline, head[0], wall)


def stats_of(waiting: RunClasses, pools: LivePools, now: float, *, delayed: int, leased: int) -> Stats:
    """Count runs by tier and by place, and the use of each pool."""
    by_tier, parked = [0] * TIER_COUNT, waiting.parked_by_pool()
    for cls in waiting.classes():
        if cls.parked_at is None:
            by_tier[cls.tier - 1] += cls.size
    used = [pool for pool in pools.all() if not pool.is_idle(now)]
    uses = {pool.name: _use(pool, parked.get(pool.name, 0), pools.time, now) for pool in used}
    return Stats(
        tuple(by_tier), delayed, sum(parked.values()), leased, {name: use for name, use in uses.items() if use}
    )


def _use(pool: LivePool, parked: int, time: QueueTime, now: float) -> PoolUse | None:
    if pool.limits is None:
        return None
    limits, state = pool.limits, pool.at(now)
    used = units_in_use(limits, state)
    whole, left = capacity(limits, now), available(limits, state, 1, now)
    status, until = _status(limits, state, now)
    return PoolUse(whole, used, state.spent, left, state.factor, parked, status, _shown(until, time))


def _shown(at: float | None, time: QueueTime) -> float | None:
    """Return the time that the wall clock shows at a time of the queue."""
    return None if at is None else at - time.wall_lag


def _status(limits: Limits, state: PoolState, now: float) -> tuple[str, float | None]:
    """Return the status of a pool, and when it ends (None when time alone does not end it)."""
    if state.open_until > 0:
        return ("tripped", state.open_until) if now < state.open_until else ("probing", None)
    if now < state.stopped_until:
        return "stopped", state.stopped_until
    return ("closed", opens_at(limits, now)) if capacity(limits, now) <= 0 else ("admitting", None)
