"""Units of a pool that are kept for a waiting run, in the queue in memory: holds and promises.

Twin: lua/admission/holds.lua.

An overdue run that lacks units of a pool has a *hold*: runs that go after it leave it what is released. Within a tier,
runs go by key and turn. Between tiers the more urgent one goes first, until the other has earned a start. Each start
earns the other tiers that have an overdue run here their share of it. So the first overdue run of a tier is passed by
`2 / share` starts and a few more at most.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile

from duetime.scheduler.queue.memory.classes import ClassName, RunClass, RunClasses, class_name
from duetime.scheduler.queue.memory.lazy_heap import LazyHeap
from duetime.scheduler.queue.memory.turns import Rank
from duetime.scheduler.queue.port import Entry
from duetime.scheduler.rules.limits.admission import Limits, PoolState, advance, available, available_in_time
from duetime.scheduler.rules.limits.queue_time import QueueTime
from duetime.scheduler.rules.shares import MAX_DISPATCHES_SAVED, TIER_COUNT, Shares

LineName = tuple[int, int, str]
"""Tier, units and action: a pool can give either all heads of a line what they need, or none."""


@dataclass(slots=True, eq=False)
class HeldPool:
    """One pool; without `limits` it is undeclared, and only its use is kept.

    Its limits are the `declared` ones, with the times of the queue. Units that runs were requested to release are
    `promised` to a class before `promised_until`. `lines` are the heads that are parked here,
    and `firsts` by tier the first one of each line.
    """

    name: str
    declared: Limits | None = None
    limits: Limits | None = None
    state: PoolState = field(default_factory=PoolState)
    promised: ClassName | None = None
    promised_until: float = 0.0
    lines: dict[LineName, LazyHeap[Rank]] = field(default_factory=dict)
    firsts: dict[int, LazyHeap[Rank]] = field(default_factory=dict)

    def at(self, now: float) -> PoolState:
        """Return the state as of `now` without storing it."""
        return advance(self.limits, self.state, now) if self.limits else self.state

    def is_held(self, entry: Entry, waiting: RunClasses, time: QueueTime) -> bool:
        """Whether units are kept for another run: its class was promised them, or it has a hold."""
        promised = self.promised_class(waiting, time.now)
        if promised is not None:
            return promised.name != class_name(entry)
        return self.held_for(entry, waiting, time) is not None

    def held_for(self, entry: Entry, waiting: RunClasses, time: QueueTime) -> Entry | None:
        """Return a run whose hold keeps `entry` from starting, None when nothing does."""
        for tier in range(1, TIER_COUNT + 1):
            holder = self.holder(tier, waiting, time)
            if holder is not None and holder.run_id != entry.run_id and self._goes_before(holder, entry, waiting):
                return holder
        kept = waiting.get(self.state.hold) if time.now < self.state.hold_until else None
        if kept is None or kept.run_id == entry.run_id or not self._is_kept_from(entry, kept, waiting, time.now):
            return None
        return kept

    def holder(self, tier: int, waiting: RunClasses, time: QueueTime) -> Entry | None:
        """Return the run of a tier with a hold: the first overdue one parked here that lacks units it can still get."""
        firsts = self.firsts.get(tier)
        first = firsts.top() if firsts is not None else None
        if firsts is None or first is None or first[0] >= time.wall:
            return None
        overdue = takewhile(lambda head: head[0] < time.wall, firsts.ascending())
        found = next((head for head in overdue if self._lacks_units(head, waiting, time.now)), None)
        return waiting.entry(found[2]) if found is not None else None

    def join_line(self, cls: RunClass, waiting: RunClasses) -> None:
        """Add a class that is parked here now."""
        name, head = self._line_of(cls), cls.head
        assert head is not None
        line = self.lines.setdefault(name, LazyHeap(partial(self._is_in, name, waiting)))
        line.push(head)
        if line.top() == head:
            firsts = self.firsts.setdefault(cls.tier, LazyHeap(partial(self._is_first, cls.tier, waiting)))
            firsts.push(head)

    def leave_line(self, cls: RunClass) -> None:
        """Remove a class that is no longer parked here: another one may be the first of its line."""
        name = self._line_of(cls)
        first = self.lines[name].top()
        if first is None:
            del self.lines[name]
        else:
            self.firsts[cls.tier].push(first)

    def _line_of(self, cls: RunClass) -> LineName:
        return cls.tier, dict(cls.needs)[self.name], cls.action

    def _is_in(self, line: LineName, waiting: RunClasses, head: Rank) -> bool:
        cls = waiting.parked_on(self.name, head)
        return cls is not None and self._line_of(cls) == line

    def _is_first(self, tier: int, waiting: RunClasses, head: Rank) -> bool:
        cls = waiting.parked_on(self.name, head)
        line = self.lines.get(self._line_of(cls)) if cls is not None and cls.tier == tier else None
        return line is not None and line.top() == head

    def _is_kept_from(self, entry: Entry, kept: Entry, waiting: RunClasses, now: float) -> bool:
        """Whether a run that may be admitted would take units from one that is parked elsewhere, or not parked."""
        last = TIER_COUNT if waiting.class_of(kept.run_id).parked_at is not None else kept.tier
        if self.limits is None or not kept.tier <= entry.tier <= last or not waiting.is_ahead(kept, entry):
            return False
        units = entry.needs[self.name] + kept.needs[self.name]
        return units > available(self.limits, self.at(now), kept.tier, now) and self._can_use(kept, waiting, now)

    def _lacks_units(self, head: Rank, waiting: RunClasses, now: float) -> bool:
        entry = waiting.entry(head[2])
        if self.limits is None or entry.needs[self.name] <= available(self.limits, self.at(now), entry.tier, now):
            return False
        return self._can_use(entry, waiting, now)

    def _can_use(self, entry: Entry, waiting: RunClasses, now: float) -> bool:
        """Whether releases can give a run what it needs here, and a worker can start it."""
        units, limits = entry.needs[self.name], self.limits
        if limits is None or units > available_in_time(limits, self.at(now), entry.tier, now):
            return False
        return not waiting.is_unserved(entry.run_id, now)

    def _goes_before(self, holder: Entry, entry: Entry, waiting: RunClasses) -> bool:
        """Whether a hold binds a run: within a tier by key and turn, between tiers by what each has earned here."""
        if holder.tier == entry.tier:
            return waiting.is_ahead(holder, entry)
        owed = self.state.owed
        return (owed[holder.tier - 1] < 1, holder.tier) < (owed[entry.tier - 1] < 1, entry.tier)

    def count_start(self, tier: int, shares: Shares, wall: float) -> None:
        """Count a start of a tier: each tier with an overdue run parked here earns its share of it."""
        firsts = {each: heads.top() for each, heads in self.firsts.items()}
        late = {each for each, first in firsts.items() if first is not None and first[0] < wall}
        earned = [owed + shares.guaranteed[i] * (i + 1 in late) for i, owed in enumerate(self.state.owed)]
        earned[tier - 1] -= 1
        self.state.owed = tuple(min(MAX_DISPATCHES_SAVED, max(0.0, each)) for each in earned)

    def promise(self, name: ClassName | None, until: float = 0.0) -> None:
        """Reserve released units for a class until then; None ends the reservation."""
        self.promised, self.promised_until = name, until

    def promised_class(self, waiting: RunClasses, now: float) -> RunClass | None:
        """Return the class for which units were requested, while it waits."""
        return waiting.named(self.promised) if now < self.promised_until else None

    def drop_hold(self, run_id: str | None, name: ClassName | None) -> bool:
        """Drop the hold of a run parked elsewhere and the promise to its class, unless None; return whether any was."""
        had, was_promised = self.state.hold == run_id, name is not None and self.promised == name
        if had:
            self.state.hold, self.state.hold_until = "", 0.0
        if was_promised:
            self.promise(None)
        return had or was_promised

    def hold(self, entry: Entry, until: float, waiting: RunClasses, now: float) -> bool:
        """Hold units for a run that is not parked here, unless an earlier one has them; return whether it has."""
        kept = waiting.get(self.state.hold) if now < self.state.hold_until else None
        if kept is not None and (kept.tier, kept.key) < (entry.tier, entry.key):
            return False
        self.state.hold, self.state.hold_until = entry.run_id, until
        return True
