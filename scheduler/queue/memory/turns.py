"""Tenants that take turns in one place, for the queue in memory; see `rules.turns`. Twin: lua/order/turns.lua.

A place is a tier, where the heads of classes are that takes look at, or a size of a pool, where heads are parked.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from urllib.parse import quote

from duetime.scheduler.queue.constants import MAX_TURNS_REFRESHED
from duetime.scheduler.queue.memory.lazy_heap import LazyHeap

Rank = tuple[float, float, str]
"""Key, created, run id: the whole order inside a class and between heads."""


@lru_cache(4096)
def _quoted(tenant: str) -> str:
    """Return the name that Redis has for a tenant, by which equal turns go."""
    return quote(tenant, safe="")


class Ring:
    """Of each tenant the heads that are here: those for which `is_here` holds. `turn_of` gives the turn of a tenant.

    A turn that has passed since is found when its tenant comes up. A start need not touch every place in which its
    tenant waits.
    """

    def __init__(self, is_here: Callable[[str, Rank], bool], turn_of: Callable[[str], float]) -> None:
        self._is_here = is_here
        self._turn_of = turn_of
        self._heads: dict[str, LazyHeap[Rank]] = {}
        self._turn: dict[str, float] = {}
        self._order = LazyHeap[tuple[float, str, str]](self._is_waiting)

    def add(self, tenant: str, head: Rank) -> None:
        heads = self._heads.setdefault(tenant, LazyHeap(partial(self._is_here, tenant)))
        was_away = heads.top() is None
        heads.push(head)
        if was_away:
            self._put(tenant, self._turn_of(tenant))

    def first(self) -> Rank | None:
        """Return the best head of the tenant whose turn it is, None where there is no tenant."""
        if len(self._heads) == 1:
            return next(iter(self._heads.values())).top()
        first = self.next()
        return self._heads[first[2]].top() if first is not None else None

    def head_of(self, tenant: str) -> Rank | None:
        """Return the best head of a tenant."""
        heads = self._heads.get(tenant)
        return heads.top() if heads is not None else None

    def next(self) -> tuple[float, str, str] | None:
        """Return the turn of the tenant whose turn it is, its quoted name and its name; None without a tenant."""
        for _ in range(MAX_TURNS_REFRESHED):
            first = self._order.top()
            if first is None:
                return None
            turn = self._turn_of(first[2])
            if turn <= first[0]:
                break
            self._put(first[2], turn)
        return self._order.top()

    def forget(self, tenant: str) -> None:
        """Remove a tenant without heads."""
        heads = self._heads.get(tenant)
        if heads is not None and heads.top() is None:
            del self._heads[tenant], self._turn[tenant]

    def _put(self, tenant: str, turn: float) -> None:
        self._turn[tenant] = turn
        self._order.push((turn, _quoted(tenant), tenant))

    def _is_waiting(self, item: tuple[float, str, str]) -> bool:
        turn, _, tenant = item
        return self._turn.get(tenant) == turn and self._heads[tenant].top() is not None
