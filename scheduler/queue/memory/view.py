"""The waiting runs that one take sees, by the actions of its worker.

Twins: lua/order/view.lua and lua/leases/decisions.lua.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from duetime.scheduler.queue.constants import MAX_BARRED_HEADS_PASSED, MAX_CLASSES_PER_TAKE, MAX_LOOKS_RECORDED
from duetime.scheduler.queue.lanes import MAIN_LANE, KnownActions, knows
from duetime.scheduler.queue.memory.classes import RunClass, RunClasses, rank_of
from duetime.scheduler.queue.memory.pool import LivePool
from duetime.scheduler.queue.memory.pools import LivePools
from duetime.scheduler.queue.memory.turns import Rank
from duetime.scheduler.queue.port import Entry
from duetime.scheduler.queue.reports import Why
from duetime.scheduler.rules.headroom import NO_HEADROOM, Headroom, may_start
from duetime.scheduler.rules.limits.admission import available
from duetime.scheduler.rules.policies.decision import Contender, Look, PoolSeen
from duetime.scheduler.rules.shares import TIER_COUNT, ShareBalance
from duetime.scheduler.rules.turns import goes_out_of_turn


class View:
    """The lanes of a worker that has `actions`; `moved` counts classes that it moved out of the main lane.

    The view is whole while there are no lanes and every waiting run is of a known action: then nothing is told apart.
    `looks` gets what the first looks saw. `out_of_turn` is whether the run that `in_turn` returned goes out of turn.
    """

    def __init__(
        self, waiting: RunClasses, pools: LivePools, actions: KnownActions, now: float, looks: list[Look] | None = None
    ) -> None:
        self._waiting = waiting
        self._pools = pools
        self._actions = actions
        self._now = now
        self._lanes = waiting.lanes.known(actions)
        self._is_whole = not waiting.lanes and waiting.are_known(actions)
        self.moved = 0
        self.out_of_turn = False
        self._barred: Rank | None = None
        self._looks = looks
        self._heads: list[Rank | None] = []
        self._idle, self._headroom = 0, NO_HEADROOM

    @property
    def is_cut_short(self) -> bool:
        """Whether as many classes were moved as one take may examine: the next take continues."""
        return self.moved >= MAX_CLASSES_PER_TAKE

    def best(self) -> list[Rank | None]:
        """Return by tier the best head that is not parked."""
        if self._is_whole:
            return self._waiting.best()
        found: list[Rank | None] = [None] * TIER_COUNT
        for tier in self._waiting.tiers():
            found[tier - 1] = self._best(tier)
        return found

    def heads(self, headroom: Headroom, idle: int) -> list[Rank | None]:
        """Return by tier the best head that may start on the threads that stay idle."""
        self._heads, self._idle, self._headroom = self.best(), idle, headroom
        return [head if head and may_start(headroom, tier, idle) else None for tier, head in enumerate(self._heads, 1)]

    def note(self, entry: Entry, balance: ShareBalance, policy: int, short: tuple[LivePool, Why] | None) -> None:
        """Record a look at a run, which lacks a pool or starts, if the take records its looks."""
        if self._looks is None or len(self._looks) >= MAX_LOOKS_RECORDED:
            return
        self._looks.append(
            Look(
                at=self._pools.time.wall,
                policy=policy,
                idle=self._idle,
                owed=tuple(balance.owed),
                room=tuple(balance.room),
                heads=tuple(self._contender(head) if head is not None else None for head in self._heads),
                tier=entry.tier,
                run=self._contender(rank_of(entry)),
                pools=tuple(self._pools_seen(entry, short)),
                headroom=self._headroom,
                out_of_turn=self.out_of_turn,
            )
        )

    def _pools_seen(self, entry: Entry, short: tuple[LivePool, Why] | None) -> Iterator[PoolSeen]:
        for name, units in sorted(entry.needs.items()):
            pool, why = short if short is not None and short[0].name == name else (self._pools.get(name, self._now), "")
            limits = pool.limits
            units_free = None if limits is None else available(limits, pool.at(self._now), entry.tier, self._now)
            yield PoolSeen(name, units, units_free, why)
            if why:
                return

    def in_turn(self, head: Rank, wall: float) -> Rank | None:
        """Return the run to start when `head` is best of its tier: one that goes out of turn, or else in turn.

        None when the view is cut short.
        """
        self.out_of_turn, self._barred = False, None
        cls = self._waiting.class_of(head[2])
        first = self._first_in_turn(cls, head) if cls.tenant else head
        if first is None or not cls.by_deadline:
            return first
        best = self._first_by_key(cls.tier, head, first)
        other = self._waiting.class_of(best[2]) if best is not None else cls
        if best is None or not goes_out_of_turn(other.by_deadline, best[0], wall):
            return first
        self.out_of_turn = other.tenant != self._waiting.class_of(first[2]).tenant
        return best if self.out_of_turn else first

    def _first_by_key(self, tier: int, head: Rank, first: Rank) -> Rank | None:
        """Return the best head of a tier that is not barred while it is the turn of `first`; `head` is the best."""
        if not self._waiting.is_barred(head, first):
            return head
        self._barred = head
        lanes = [self._waiting.heads_in(lane, tier) for lane in self._lanes]
        found = [heads.find(partial(self._may_pass, first), 1 + MAX_BARRED_HEADS_PASSED) for heads in lanes]
        return min((best for best in found if best is not None), default=None)

    def _may_pass(self, first: Rank, head: Rank) -> bool:
        return self._knows(head) and not self._waiting.is_barred(head, first)

    def _first_in_turn(self, cls: RunClass, head: Rank) -> Rank | None:
        """Return the best run of the tenant whose turn it is; `head`, of class `cls`, is the best of the tier."""
        if self._is_whole:
            return self._waiting.ring_in(MAIN_LANE, cls.tier).first()
        rings = [self._waiting.ring_in(lane, cls.tier) for lane in self._lanes]
        while not self.is_cut_short:
            turns = [turn for ring in rings if (turn := ring.next()) is not None]
            tenant = min(turns)[2]
            if tenant == cls.tenant:
                return head
            mine = rings[0].head_of(tenant)
            if mine is None or not self._move_unknown(mine):
                return min(first for ring in rings if (first := ring.head_of(tenant)) is not None)
        return None

    def late(self, tier: int, before: float, most: int) -> list[str]:
        """Return the unparked runs of a tier with a key up to `before`, up to `most` of `most` classes of each lane."""
        classes = [self._waiting.class_of(head[2]) for head in self.late_heads(tier, before, most)]
        firsts = [rank for cls in classes for rank in cls.runs.first(most)]
        return [run_id for key, _, run_id in sorted(firsts) if key <= before]

    def late_heads(self, tier: int, before: float, most: int) -> list[Rank]:
        """Return the heads of these classes, in their order. Unknown actions among the first leave the main lane."""
        main = self._waiting.heads_in(MAIN_LANE, tier)
        while not self.is_cut_short and [head for head in main.first(most) if self._move_unknown(head)]:
            pass
        heads = [head for lane in self._lanes for head in self._waiting.heads_in(lane, tier).first(most)]
        return sorted(head for head in heads if head[0] <= before and self._knows(head))

    def _best(self, tier: int) -> Rank | None:
        main = self._waiting.heads_in(MAIN_LANE, tier)
        while (head := main.top()) is not None and not self.is_cut_short and self._move_unknown(head):
            pass
        heads = [self._waiting.heads_in(lane, tier).top() for lane in self._lanes]
        return min((head for head in heads if head is not None and self._knows(head)), default=None)

    def _move_unknown(self, head: Rank) -> bool:
        """Move a class of the main lane whose action is unknown to a lane of its own; return whether it was."""
        if self._knows(head):
            return False
        cls = self._waiting.class_of(head[2])
        self._waiting.move_out(cls, self._now)
        self._pools.moved_out(cls, self._now)
        self.moved += 1
        return True

    def _knows(self, head: Rank) -> bool:
        return knows(self._actions, self._waiting.class_of(head[2]).action)

    def _contender(self, head: Rank) -> Contender:
        cls = self._waiting.class_of(head[2])
        return Contender(head[2], head[0], cls.tenant, cls.by_deadline and head != self._barred)
