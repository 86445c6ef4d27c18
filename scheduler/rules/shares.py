"""Which tier is served next: guaranteed shares first, then the smallest key among tiers below their ceiling.

A tier earns its share of a dispatch with every dispatch during which it has work that may start. Who has earned a whole
one is owed the next; among several the one whose next guarantee would be broken first goes first. This is earliest
deadline first over unit jobs, which keeps every promise while the shares add up to at most 1 (Liu and Layland 1973;
Baruah et al., proportionate progress, 1996). What nobody is owed goes by key. The Lua scripts repeat this arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

TIERS = 5
_SAVED = 2.0
"""Dispatches that a tier can save up, owed or below its ceiling: bursts of an idle tier stay short."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Parts of all dispatches by tier, critical first: `guaranteed` at least, `ceilings` at most while others wait."""

    guaranteed: tuple[float, ...] = (0.30, 0.20, 0.15, 0.10, 0.05)
    ceilings: tuple[float, ...] = (0.80, 0.70, 0.60, 0.50, 0.40)

    def __post_init__(self) -> None:
        sound = len(self.guaranteed) == len(self.ceilings) == TIERS and sum(self.guaranteed) <= 1 + 1e-9
        pairs = zip(self.guaranteed, self.ceilings, strict=False)
        if not (sound and all(0 < share < ceiling <= 1 for share, ceiling in pairs)):
            raise ValueError(f"five shares, each above 0 and below its ceiling, 1 at most in all; got {self}")

    def bound(self, rank: int) -> int:
        """Return within how many dispatches a tier with work that may start is served, whatever arrives.

        A promise falls due when the tier would have saved a second dispatch: after 2 / share dispatches, and one more
        because a dispatch cannot be cut in pieces. By then each other tier may be due one that it had saved while idle.
        """
        return math.ceil(_SAVED / self.guaranteed[rank - 1]) + TIERS


@dataclass(slots=True)
class Standing:
    """What each tier has saved: dispatches owed to it, and dispatches left below its ceiling."""

    owed: list[float] = field(default_factory=lambda: [0.0] * TIERS)
    room: list[float] = field(default_factory=lambda: [_SAVED] * TIERS)


def choose(shares: Shares, standing: Standing, heads: Sequence[float | None]) -> int | None:
    """Return the index of the tier to look at next; `heads` are the smallest keys of what may start, None without."""
    waiting = [tier for tier in range(TIERS) if heads[tier] is not None]
    owed = [tier for tier in waiting if standing.owed[tier] >= 1]
    if owed:
        return min(owed, key=lambda tier: ((_SAVED - standing.owed[tier]) / shares.guaranteed[tier], tier))
    below = [tier for tier in waiting if standing.room[tier] >= 1] or waiting
    return min(below, key=lambda tier: (heads[tier], tier), default=None)


def served(shares: Shares, standing: Standing, waiting: Sequence[int], tier: int) -> None:
    """Note that `tier` got a dispatch for which all in `waiting`, itself among them, had something that may start."""
    for each in waiting:
        owed = standing.owed[each] + shares.guaranteed[each] - (each == tier)
        standing.owed[each] = min(_SAVED, max(0.0, owed))
    if len(waiting) > 1:
        for each in waiting:
            room = standing.room[each] + shares.ceilings[each] - (each == tier)
            standing.room[each] = min(_SAVED, max(-_SAVED, room))
