"""All pools of the queue in memory: made from templates, reserved, released, timed. Twin: lua/admission/pools.lua."""

from __future__ import annotations

from collections.abc import Iterable

from duetime.scheduler.queue.constants import DEFAULT_LIMITS, HOLD_CHECK_INTERVAL_MS
from duetime.scheduler.queue.memory.classes import RunClass, RunClasses, class_name
from duetime.scheduler.queue.memory.lazy_heap import LazyHeap
from duetime.scheduler.queue.memory.lease import Lease
from duetime.scheduler.queue.memory.pool import LivePool, ParkedSize
from duetime.scheduler.queue.port import Entry
from duetime.scheduler.queue.reports import Why
from duetime.scheduler.rules.limits.admission import (
    THROTTLE_CHECK_INTERVAL_MS,
    Kind,
    Limits,
    PoolState,
    release,
    reserve,
    spent_after_change,
)
from duetime.scheduler.rules.limits.breaker import Report, close, learn
from duetime.scheduler.rules.limits.pool import TEMPLATE_SUFFIX
from duetime.scheduler.rules.limits.queue_time import QueueTime
from duetime.scheduler.rules.limits.start_log import resize
from duetime.scheduler.rules.preemption import YIELD_NOTICE_MS
from duetime.scheduler.rules.shares import Shares


class LivePools:
    """All pools by name, including those made from templates."""

    def __init__(self, waiting: RunClasses, time: QueueTime) -> None:
        self._waiting = waiting
        self.time = time
        self._pools: dict[str, LivePool] = {}
        self._templates = dict(DEFAULT_LIMITS)
        self._timers = LazyHeap[tuple[float, str]](self._is_set)

    def get(self, name: str, now: float) -> LivePool:
        """Return a pool; one made from its template, or undeclared, is not stored yet."""
        pool = self._pools.get(name)
        return pool or self._made(LivePool(name), self._templates.get(_template_of(name)), now)

    def pass_time(self, time: QueueTime) -> None:
        """Advance to `time`; after the clock was set back, calendar windows end later in time of the queue."""
        set_back, self.time = time.wall_lag != self.time.wall_lag, time
        for pool in self._pools.values() if set_back else ():
            pool.limits = pool.declared and time.limits(pool.declared)

    def all(self) -> list[LivePool]:
        return list(self._pools.values())

    def keep(self, pool: LivePool) -> LivePool:
        return self._pools.setdefault(pool.name, pool)

    def park(self, cls: RunClass, pool: LivePool, why: Why, now: float) -> None:
        """Park a class on the pool that its head lacks."""
        units, head = dict(cls.needs)[pool.name], cls.head
        assert head is not None
        self.keep(pool).park(cls, units, self._waiting)
        if why not in (Why.HELD, Why.TOO_SMALL):
            self.remind(pool, pool.helped_at(units, cls.tier, now))
        self._check_holds(pool, now)

    def hold(self, pool: LivePool, entry: Entry, part: float, now: float) -> None:
        """Hold units for an overdue run parked on another pool, for a `part` of the time that it is overdue.

        A run that had a hold here gets no other one before as long has passed since.
        """
        length = part * (self.time.wall - entry.key)
        had_lately = pool.state.hold == entry.run_id and now < pool.state.hold_until + length
        if length > 0 and pool.limits is not None and not had_lately:
            self._hold(self.keep(pool), entry, now + length, now)

    def _hold(self, pool: LivePool, entry: Entry, until: float, now: float) -> None:
        if pool.hold(entry, until, self._waiting, now):
            self.remind(pool, until)

    def wake(self, pool: LivePool, now: float) -> None:
        """Unpark the classes that may be admitted now."""
        if (promised := pool.fits_promised(self._waiting, now)) is not None:
            self._waiting.unpark(promised)
        if self._waiting.lanes:
            self._separate(pool, pool.fitting(now), now)
        for head in pool.admitted(self._waiting, self.time):
            cls = self._waiting.class_of(head[2])
            if cls.action and head[0] < self.time.wall:  # a worker that does not know it may be the first to look
                self._hold(pool, cls.entries[head[2]], now + HOLD_CHECK_INTERVAL_MS, now)
            self._waiting.unpark(cls)
        self._check_holds(pool, now)

    def moved_out(self, cls: RunClass, now: float) -> None:
        """Unpark the classes behind one that left the main lane, as no start of its run will unpark them."""
        for name, _ in cls.needs:
            if name in self._pools:
                self.wake(self._pools[name], now)

    def _check_holds(self, pool: LivePool, now: float) -> None:
        """Look again later at a pool with a hold: it counts while a worker reports that has the run's action."""
        holders = [pool.holder(tier, self._waiting, self.time) for tier in pool.firsts]
        if any(holder is not None and holder.action for holder in holders):
            self.remind(pool, now + HOLD_CHECK_INTERVAL_MS)

    def _separate(self, pool: LivePool, sizes: Iterable[ParkedSize], now: float) -> None:
        """Move classes to the lanes of their actions, so that they keep no runs parked that more workers know."""
        if [size for size in list(sizes) if not size.separate()]:
            self.remind(pool, now + 1)

    def remind(self, pool: LivePool, at: float | None) -> None:
        """Set the timer of a pool to `at`, unless it fires earlier."""
        if at is not None and (pool.timer is None or at < pool.timer):
            pool.timer = at
            self._timers.push((at, pool.name))

    def next_timer(self) -> float | None:
        timer = self._timers.top()
        return timer[0] if timer else None

    def ring(self, now: float) -> bool:
        """Unpark the classes of the first pool whose timer has fired, and set its next timer."""
        timer = self._timers.top()
        if timer is None or timer[0] > now:
            return False
        pool = self._pools[timer[1]]
        pool.timer = None
        self.wake(pool, now)
        self.remind(pool, pool.rest(now))
        self.forget(pool, now)
        return True

    def drop_holds(self, entry: Entry, now: float, *, is_overdue: bool = False) -> None:
        """Drop the holds of a run that has left its place, and unpark those it kept out.

        A promise stays while another run of its class is late, and holds while the run itself `is_overdue`.
        """
        cls = self._waiting.named(class_name(entry))
        is_late = cls is not None and cls.head is not None and cls.head[0] <= self.time.wall + YIELD_NOTICE_MS
        for pool in [self.get(name, now) for name in sorted(entry.needs)]:
            dropped = pool.drop_hold(None if is_overdue else entry.run_id, None if is_late else class_name(entry))
            if dropped or entry.key < self.time.wall:
                self.wake(pool, now)
            self.forget(pool, now)

    def short(self, entry: Entry, now: float) -> tuple[LivePool, Why] | None:
        """Return the first pool by name that does not admit a run, and why."""
        for name, units in sorted(entry.needs.items()):
            pool = self.get(name, now)
            why = pool.lacks(units, entry, self._waiting, self.time)
            if why is not None:
                return pool, why
        return None

    def count_start(self, entry: Entry, shares: Shares) -> None:
        """Count a start in the pools of a run, by whose turn it is between tiers that hold one."""
        for pool in [self._pools[name] for name in entry.needs if name in self._pools]:
            pool.count_start(entry.tier, shares, self.time.wall)

    def reserve(self, name: str, entry: Entry, now: float) -> LivePool:
        """Reserve units even beyond the capacity; for an undeclared pool only the use is counted."""
        run_id, units = entry.run_id, entry.needs[name]
        pool = self.keep(self.get(name, now))
        if pool.promised is not None and pool.promised == class_name(entry):
            pool.promise(None)
        pool.state = pool.at(now)
        if pool.limits is None:
            pool.state.used += units
        else:
            reserve(pool.limits, pool.state, run_id, units)
        return pool

    def release(self, name: str, lease: Lease, actual: float | None, now: float, *, began: float) -> LivePool:
        """Release the units of a lease, whose run began at a time and used `actual` of them."""
        run_id, units = lease.entry.run_id, lease.entry.needs[name]
        pool = self.keep(self.get(name, now))
        pool.state = pool.at(now)
        if pool.limits is None:
            pool.state.used -= units
        else:
            release(pool.limits, pool.state, run_id, units, actual, granted=lease.granted, began=began)
        return pool

    def probed_by(self, entry: Entry) -> set[str]:
        """Return the pools whose breaker the run probes."""
        pools = [self._pools[name] for name in entry.needs if name in self._pools]
        return {pool.name for pool in pools if pool.state.probe == entry.run_id}

    def learn(self, report: Report, now: float, jitter: float, *, probed: bool) -> LivePool | None:
        """Apply the report of a run, which may be the probe, to a pool; return it, None when it does not exist."""
        pool = self._pools.get(report.pool)
        if pool is None or pool.limits is None:
            return None
        pool.state = pool.at(now)
        learn(pool.limits, pool.state, report, now, jitter, probed=probed)
        shut = max(pool.state.stopped_until, pool.state.open_until)
        if shut > now:
            self.remind(pool, shut)
        if pool.state.factor < 1:
            self.remind(pool, now + THROTTLE_CHECK_INTERVAL_MS)
        return pool

    def rest(self, pool: LivePool, now: float) -> None:
        """After units were released: reset the timer, as time may help sooner, or remove the pool if it is unused."""
        if pool.limits is not None and pool.limits.kind is Kind.RATE:
            self.remind(pool, pool.rest(now))
        self.forget(pool, now)

    def forget(self, pool: LivePool, now: float) -> None:
        """Remove an unused pool that was made from a template."""
        if pool.is_idle(now):
            self._pools.pop(pool.name, None)

    def set(self, name: str, limits: Limits | None, now: float, *, spent: float, empty: bool) -> None:
        if name.endswith(TEMPLATE_SUFFIX):
            self._set_template(name, limits, now)
            return
        pool = self.keep(LivePool(name))
        pool.own = limits is not None
        self._change(pool, limits or self._templates.get(_template_of(name)), now, spent=spent, empty=empty)

    def _set_template(self, name: str, limits: Limits | None, now: float) -> None:
        self._templates.pop(name, None)
        limits = limits or DEFAULT_LIMITS.get(name)
        if limits is not None:
            self._templates[name] = limits
        for pool in self.all():
            if not pool.own and _template_of(pool.name) == name:
                self._change(pool, limits, now)

    def _change(
        self, pool: LivePool, limits: Limits | None, now: float, *, spent: float = 0.0, empty: bool = False
    ) -> None:
        if limits is None:
            pool.declared, pool.limits, pool.state = None, None, PoolState(used=pool.state.used)
            pool.promise(None)
        elif pool.limits is None:
            self._made(pool, limits, now, spent=spent, empty=empty)
        else:
            pool.state = pool.at(now)
            pool.state.spent = spent_after_change(pool.limits, limits, pool.state, spent)
            pool.state.level = min(pool.state.level, limits.capacity)
            pool.state.relog(resize(pool.state.log, limits.window if limits.slides else 0.0))
            if not limits.failures:
                close(pool.state)
            pool.declared, pool.limits = limits, self.time.limits(limits)
        if self._waiting.lanes:
            self._separate(pool, pool.sizes.values(), now)
        for size in list(pool.sizes.values()):
            head = size.heads.top()
            if head is not None:
                self._waiting.unpark(self._waiting.class_of(head[2]))
        self.forget(pool, now)

    def _made(
        self, pool: LivePool, limits: Limits | None, now: float, *, spent: float = 0.0, empty: bool = False
    ) -> LivePool:
        """Set the limits of a pool that had none: it is full, less the units that runs still hold."""
        if limits is not None:
            level = 0.0 if empty and not limits.slides else limits.capacity
            pool.declared, pool.limits = limits, self.time.limits(limits)
            settled = 0.0 if limits.slides else spent
            pool.state = PoolState(at=now, used=pool.state.used, spent=settled, level=level)
            if limits.slides and spent > 0:
                pool.state.level = max(0.0, level - spent)
                pool.state.relog(((now, spent),))
        return pool

    def _is_set(self, timer: tuple[float, str]) -> bool:
        pool = self._pools.get(timer[1])
        return pool is not None and pool.timer == timer[0]


def _template_of(name: str) -> str:
    head, colon, _ = name.partition(":")
    return head + TEMPLATE_SUFFIX if colon else ""
