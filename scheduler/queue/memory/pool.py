"""One pool of the queue in memory: its limits, its state, the classes parked on it, and when time alone may help.

Classes are parked by the units that their runs need. A change of a pool unparks the best class of each size that fits
now, largest sizes first. A take that leaves room unparks the next class: no class that fits stays parked, and no scan
is needed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass, field

from duetime.scheduler.queue.constants import MAX_BARRED_HEADS_PASSED, MAX_CLASSES_PER_TAKE, MAX_SIZES_PER_WAKE
from duetime.scheduler.queue.memory.classes import RunClass, RunClasses
from duetime.scheduler.queue.memory.holds import HeldPool
from duetime.scheduler.queue.memory.lazy_heap import LazyHeap
from duetime.scheduler.queue.memory.turns import Rank, Ring
from duetime.scheduler.queue.port import Entry
from duetime.scheduler.queue.reports import Why
from duetime.scheduler.rules.limits.admission import (
    THROTTLE_CHECK_INTERVAL_MS,
    Kind,
    Limits,
    PoolState,
    available,
    available_if_released,
    free_at,
    most_available,
)
from duetime.scheduler.rules.limits.queue_time import QueueTime
from duetime.scheduler.rules.shares import TIER_COUNT


@dataclass(slots=True, eq=False)
class ParkedSize:
    """The classes of one tier and lane that are parked on a pool for the same number of units: by key, and by turn."""

    pool: LivePool
    tier: int
    units: int
    lane: str
    waiting: RunClasses
    count: int = 0
    heads: LazyHeap[Rank] = field(init=False)
    ring: Ring = field(init=False)

    def __post_init__(self) -> None:
        self.heads = LazyHeap(self._is_parked)
        self.ring = self.waiting.ring(self.tier, self._is_parked)

    @property
    def name(self) -> str:
        return self.pool.name

    def leave(self, cls: RunClass) -> None:
        self.pool.leave_line(cls)
        self.count -= 1
        if not self.count:
            self.pool.drop(self)

    def separate(self) -> bool:
        """Park classes in the lane of their action until a class of this lane is next; False when too many were not."""
        for _ in range(MAX_CLASSES_PER_TAKE):
            classes = [self.waiting.class_of(head[2]) for head in self.firsts()]
            cls = next((cls for cls in classes if self.waiting.lanes.of(cls.action) != self.lane), None)
            if cls is None:
                return True
            self.leave(cls)
            self.pool.park(cls, self.units, self.waiting)
        return False

    def firsts(self) -> list[Rank]:
        """Return the head with the smallest key that is not barred, and that whose turn it is if it is another."""
        in_turn = self.ring.first()
        best = self.heads.find(lambda head: not self.waiting.is_barred(head, in_turn), 1 + MAX_BARRED_HEADS_PASSED)
        return list(dict.fromkeys(head for head in (best, in_turn) if head is not None))

    def _is_parked(self, head: Rank) -> bool:
        return self.waiting.parked_here(self, head)


@dataclass(slots=True, eq=False)
class LivePool(HeldPool):
    """One pool with the classes that are parked on it."""

    own: bool = False
    timer: float | None = None
    sizes: dict[tuple[int, int, str], ParkedSize] = field(default_factory=dict)
    units: tuple[list[tuple[int, str]], ...] = field(default_factory=lambda: tuple([] for _ in range(TIER_COUNT)))

    def lacks(self, units: int, entry: Entry, waiting: RunClasses, time: QueueTime) -> Why | None:
        """Return why this pool does not admit a run, None when it does."""
        limits, now = self.limits, time.now
        if limits is None:
            return Why.UNKNOWN
        if units > available(limits, self.at(now), entry.tier, now):
            return _shortness(limits, self.at(now), units, entry.tier, now)
        return Why.HELD if self.is_held(entry, waiting, time) else None

    def fits_promised(self, waiting: RunClasses, now: float) -> RunClass | None:
        """Return that class if it is parked here and may be admitted now."""
        cls = self.promised_class(waiting, now)
        if cls is None or self.limits is None or cls.parked_at is None or cls.parked_at.name != self.name:
            return None
        return cls if dict(cls.needs)[self.name] <= available(self.limits, self.at(now), cls.tier, now) else None

    def park(self, cls: RunClass, units: int, waiting: RunClasses) -> None:
        """Park a class on this pool."""
        head = cls.head
        assert head is not None
        waiting.enter(cls, waiting.lanes.of(cls.action))
        size = self.sizes.get((cls.tier, units, cls.lane))
        if size is None:
            size = self.sizes[cls.tier, units, cls.lane] = ParkedSize(self, cls.tier, units, cls.lane, waiting)
            insort(self.units[cls.tier - 1], (units, cls.lane))
        size.count += 1
        cls.parked_at = size
        size.heads.push(head)
        self.join_line(cls, waiting)
        if cls.tenant:
            size.ring.add(cls.tenant, head)

    def drop(self, size: ParkedSize) -> None:
        """Remove a size without parked classes."""
        del self.sizes[size.tier, size.units, size.lane]
        units = self.units[size.tier - 1]
        del units[bisect_left(units, (size.units, size.lane))]

    def gives_nothing(self, units: int, tier: int, why: Why, now: float) -> bool:
        """Whether no release could admit these units, so that a run parked here holds no other pool."""
        if why is Why.SHORT and self.limits is not None:
            return units > available_if_released(self.limits, self.at(now), tier, now)
        return why is not Why.HELD

    def helped_at(self, units: int, tier: int, now: float) -> float | None:
        """Return when time alone may admit these units."""
        return free_at(self.limits, self.at(now), units, tier, now) if self.limits else None

    def fitting(self, now: float) -> Iterator[ParkedSize]:
        """Yield the sizes that may be admitted now: for each tier the largest that fit."""
        if self.limits is None or not self.sizes:
            return
        state = self.at(now)
        for tier, units in enumerate(self.units, 1):
            fit = bisect_right(units, available(self.limits, state, tier, now), key=_units) if units else 0
            for size in units[max(0, fit - MAX_SIZES_PER_WAKE) : fit][::-1]:
                yield self.sizes[tier, *size]

    def admitted(self, waiting: RunClasses, time: QueueTime) -> Iterator[Rank]:
        """Yield the heads of these sizes that may be admitted now."""
        for size in self.fitting(time.now):
            for head in size.firsts():
                if not self.is_held(waiting.entry(head[2]), waiting, time):
                    yield head

    def rest(self, now: float) -> float | None:
        """Return when to examine the classes parked here now, or before a hold or promise ends; None if never."""
        times = [time for tier in range(1, TIER_COUNT + 1) for time in self._rest_of(tier, now)]
        ends = [end for end in (self.state.hold_until, self.promised_until) if now < end]
        return min(times + ends, default=None)

    def _rest_of(self, tier: int, now: float) -> Iterator[float]:
        units = self.units[tier - 1]
        if self.limits is None or not units:
            return
        state = self.at(now)
        fit = bisect_right(units, available(self.limits, state, tier, now), key=_units)
        if fit:
            yield now + THROTTLE_CHECK_INTERVAL_MS
        if fit < len(units):
            at = free_at(self.limits, state, units[fit][0], tier, now)
            if at is not None:
                yield max(now + 1, at)

    def is_idle(self, now: float) -> bool:
        """Whether the pool can be removed without loss: it is unused and has no history to keep."""
        state = self.at(now)
        if self.own or state.used or self.sizes or now < max(self.promised_until, state.hold_until):
            return False
        if self.limits is None:
            return True
        open_now = state.factor >= 1 and state.stopped_until <= now and state.open_until == 0
        return self.limits.kind is Kind.SLOTS and open_now


def _units(size: tuple[int, str]) -> int:
    return size[0]


def _shortness(limits: Limits, state: PoolState, units: int, tier: int, now: float) -> Why:
    later = [now, *(at for at, _ in limits.steps if at > now)]
    if all(units > most_available(limits, tier, at) for at in later):
        return Why.TOO_SMALL
    if now < state.stopped_until:
        return Why.STOPPED
    if now < state.open_until or (state.open_until > 0 and state.probe):
        return Why.BREAKER
    return Why.SHORT
