"""The waiting runs by class, for the queue in memory. Twins: lua/order/classes.lua, lua/order/runs.lua.

A class is all runs of a tenant, a tier and an action with equal needs, in order. One look at its head decides for all.
While the head lacks a pool, the class is parked on that pool and no take sees it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from duetime.scheduler.queue.constants import MAX_RUNS_COUNTED_AHEAD
from duetime.scheduler.queue.lanes import MAIN_LANE, KnownActions
from duetime.scheduler.queue.memory.lanes import Lanes
from duetime.scheduler.queue.memory.lazy_heap import LazyHeap
from duetime.scheduler.queue.memory.turns import Rank, Ring
from duetime.scheduler.queue.port import Entry
from duetime.scheduler.rules.shares import TIER_COUNT
from duetime.scheduler.rules.turns import Turns

ClassNeeds = tuple[tuple[str, int], ...]
ClassName = tuple[int, ClassNeeds, str, bool, str]
"""Tier, needs, tenant, whether its runs go by their deadline, and their action."""


def rank_of(entry: Entry) -> Rank:
    return (entry.key, entry.created, entry.run_id)


def class_name(entry: Entry) -> ClassName:
    by_deadline = entry.by_deadline and bool(entry.tenant)
    return (entry.tier, tuple(sorted(entry.needs.items())), entry.tenant, by_deadline, entry.action)


class Place(Protocol):
    """The place a class is parked at: `name` is that of the pool."""

    @property
    def name(self) -> str: ...

    def leave(self, cls: RunClass) -> None:
        """Count one class less that is parked here."""


@dataclass(slots=True, eq=False)
class RunClass:
    """The runs of one class; `parked_at` is the place it is parked at, None while takes examine it.

    `lane` is where its head stands, parked or not.
    """

    tier: int
    needs: ClassNeeds
    tenant: str = ""
    by_deadline: bool = False
    action: str = ""
    entries: dict[str, Entry] = field(default_factory=dict)
    runs: LazyHeap[Rank] = field(init=False)
    head: Rank | None = None
    """The best of `runs`; kept, because every take compares it several times."""
    parked_at: Place | None = None
    lane: str = MAIN_LANE

    def __post_init__(self) -> None:
        self.runs = LazyHeap(self._is_here)

    @property
    def name(self) -> ClassName:
        return (self.tier, self.needs, self.tenant, self.by_deadline, self.action)

    @property
    def size(self) -> int:
        return len(self.entries)

    def add(self, entry: Entry) -> None:
        """Add a run, or give it a new key."""
        self.entries[entry.run_id] = entry
        self.runs.push(rank_of(entry))
        self.head = self.runs.top()

    def remove(self, run_id: str) -> Entry:
        entry = self.entries.pop(run_id)
        self.head = self.runs.top()
        return entry

    def _is_here(self, rank: Rank) -> bool:
        """Whether a run waits in this class; a run whose needs have changed may keep its rank in another class."""
        entry = self.entries.get(rank[2])
        return entry is not None and rank_of(entry) == rank


class RunClasses:
    """All classes. A change of the head of a parked class unparks it: the next take examines it again."""

    def __init__(self, lanes: Lanes) -> None:
        self.lanes = lanes
        self._class_of: dict[str, RunClass] = {}
        self._classes: dict[ClassName, RunClass] = {}
        self._heads: dict[tuple[str, int], LazyHeap[Rank]] = {}
        self._turns = Turns()
        self._rings: dict[tuple[str, int], Ring] = {}
        self._main = [self.heads_in(MAIN_LANE, tier) for tier in range(1, TIER_COUNT + 1)]
        self._actions: dict[str, int] = {}
        self._in_tier = [0] * TIER_COUNT

    def get(self, run_id: str) -> Entry | None:
        cls = self._class_of.get(run_id)
        return cls.entries[run_id] if cls is not None else None

    def entry(self, run_id: str) -> Entry:
        return self._class_of[run_id].entries[run_id]

    def parked_by_pool(self) -> dict[str, int]:
        """Count the runs that are parked, by pool."""
        found: dict[str, int] = {}
        for cls in self._classes.values():
            if cls.parked_at is not None:
                found[cls.parked_at.name] = found.get(cls.parked_at.name, 0) + cls.size
        return found

    def classes(self) -> list[RunClass]:
        return list(self._classes.values())

    def class_of(self, run_id: str) -> RunClass:
        return self._class_of[run_id]

    def named(self, name: ClassName | None) -> RunClass | None:
        """Return the class of this name, None when none of its runs waits."""
        return self._classes.get(name) if name is not None else None

    def add(self, entry: Entry, now: float) -> None:
        if entry.tenant:
            self._turns.entered(entry.tier, entry.tenant, now)
        name = class_name(entry)
        cls = self._classes.get(name)
        if cls is None:
            cls = self._classes[name] = RunClass(*name)
            self._count(cls, 1)
        before = cls.head
        self._class_of[entry.run_id] = cls
        cls.add(entry)
        self._look_again(cls, before)

    def remove(self, run_id: str) -> Entry:
        cls = self._class_of.pop(run_id)
        before = cls.head
        entry = cls.remove(run_id)
        self._look_again(cls, before)
        return entry

    def start(self, run_id: str, now: float, *, out_of_turn: bool) -> None:
        """Remove a run that starts, and count it as the turn of its tenant."""
        entry = self.remove(run_id)
        if entry.tenant:
            self._turns.served(entry.tier, entry.tenant, now, out_of_turn=out_of_turn)

    def are_known(self, actions: KnownActions) -> bool:
        """Whether a worker with handlers for `actions` may take every run that waits."""
        return actions is None or self._actions.keys() <= actions

    def best(self) -> list[Rank | None]:
        """Return by tier the best head of the main lane that is not parked."""
        return [heads.top() for heads in self._main]

    def heads_in(self, lane: str, tier: int) -> LazyHeap[Rank]:
        """Return the heads of a lane and tier that are not parked."""
        found = self._heads.get((lane, tier))
        if found is None:
            is_here = partial(self._is_candidate, lane, tier)
            found = self._heads[lane, tier] = LazyHeap[Rank](is_here)
            self._rings[lane, tier] = self.ring(tier, is_here)
        return found

    def ring_in(self, lane: str, tier: int) -> Ring:
        """Return the tenants that have such heads."""
        self.heads_in(lane, tier)
        return self._rings[lane, tier]

    def begin_take(self, actions: KnownActions, now: float) -> None:
        """Begin a take by a worker with handlers for `actions`."""
        for lane in self.lanes.taken(actions, now):
            for tier in range(1, TIER_COUNT + 1):
                self._heads.pop((lane, tier), None)
                self._rings.pop((lane, tier), None)

    def tiers(self) -> list[int]:
        """Return the tiers in which runs wait, parked or not."""
        return [tier for tier, classes in enumerate(self._in_tier, 1) if classes]

    def move_out(self, cls: RunClass, now: float) -> None:
        """Move a class that is not parked to the lane of its action."""
        self.lanes.split(cls.action, now)
        self._offer(cls)

    def enter(self, cls: RunClass, lane: str) -> None:
        """Record that the head of a class stands in a lane now."""
        before, cls.lane = cls.lane, lane
        if before != lane:
            self.lanes.moved(before, lane)
            self.ring_in(before, cls.tier).forget(cls.tenant)

    def is_unserved(self, run_id: str, now: float) -> bool:
        """Whether no worker that has the action of a waiting run has reported lately."""
        cls = self._class_of.get(run_id)
        return cls is not None and self.lanes.is_unserved(cls.action, now)

    def is_ahead(self, run: Entry, other: Entry) -> bool:
        """Whether a run goes before another one: between tenants of a tier by turn, else by key."""
        if run.tier == other.tier and run.tenant and other.tenant and run.tenant != other.tenant:
            return self._turns.of(run.tier, run.tenant) < self._turns.of(other.tier, other.tenant)
        return run.key < other.key

    def is_barred(self, head: Rank, first: Rank | None) -> bool:
        """Whether a head goes by its deadline, but its tenant may not pass that of `first`, whose turn it is."""
        cls = self._class_of[head[2]]
        if first is None or not cls.by_deadline:
            return False
        other = self._class_of[first[2]]
        return self._turns.is_barred(cls.tier, cls.tenant, self._turns.of(other.tier, other.tenant))

    def ring(self, tier: int, is_here: Callable[[Rank], bool]) -> Ring:
        """Return a ring of the tenants that have heads for which `is_here` holds."""
        return Ring(partial(self._is_head_of, is_here), partial(self._turns.of, tier))

    def move(self, entry: Entry) -> None:
        """Change the key of a waiting run to that of `entry`, which is otherwise equal."""
        cls = self.class_of(entry.run_id)
        before = cls.head
        cls.add(entry)
        self._look_again(cls, before)

    def unpark(self, cls: RunClass) -> None:
        """Return a class, which must have a head, to the candidates of the next take."""
        self._leave_place(cls)
        self._offer(cls)

    def ahead(self, run_id: str) -> int:
        """Count the runs of its class that go before this one, up to `MAX_RUNS_COUNTED_AHEAD`."""
        return self.class_of(run_id).runs.before(rank_of(self.entry(run_id)), MAX_RUNS_COUNTED_AHEAD)

    def parked_on(self, pool: str, rank: Rank) -> RunClass | None:
        """Return the class whose head is `rank` if it is parked on a pool."""
        cls = self._headed_by(rank)
        return cls if cls is not None and cls.parked_at is not None and cls.parked_at.name == pool else None

    def parked_here(self, place: Place, rank: Rank) -> bool:
        """Whether the class whose head is `rank` is parked at `place`."""
        cls = self._headed_by(rank)
        return cls is not None and cls.parked_at is place

    def _look_again(self, cls: RunClass, before: Rank | None) -> None:
        if cls.head is None:
            del self._classes[cls.name]
            self._count(cls, -1)
            self.ring_in(cls.lane, cls.tier).forget(cls.tenant)
            self.enter(cls, MAIN_LANE)
            self._leave_place(cls)
        elif cls.head != before:
            self.unpark(cls)

    def _leave_place(self, cls: RunClass) -> None:
        if cls.parked_at is not None:
            place, cls.parked_at = cls.parked_at, None
            place.leave(cls)

    def _count(self, cls: RunClass, classes: int) -> None:
        """Count classes of a tier, and of an action; every worker may take the runs without one."""
        action = cls.action
        self._in_tier[cls.tier - 1] += classes
        self._actions[action] = self._actions.get(action, 0) + classes
        if not action or not self._actions[action]:
            del self._actions[action]

    def _offer(self, cls: RunClass) -> None:
        assert cls.head is not None
        lane = self.lanes.of(cls.action)
        if lane != cls.lane:
            self.enter(cls, lane)
        self.heads_in(lane, cls.tier).push(cls.head)
        if cls.tenant:
            self._rings[lane, cls.tier].add(cls.tenant, cls.head)

    def _is_candidate(self, lane: str, tier: int, rank: Rank) -> bool:
        cls = self._headed_by(rank)
        return cls is not None and cls.parked_at is None and cls.tier == tier and cls.lane == lane

    def _is_head_of(self, is_here: Callable[[Rank], bool], tenant: str, rank: Rank) -> bool:
        return is_here(rank) and self._class_of[rank[2]].tenant == tenant

    def _headed_by(self, rank: Rank) -> RunClass | None:
        cls = self._class_of.get(rank[2])
        return cls if cls is not None and cls.head == rank else None
