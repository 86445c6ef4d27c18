"""The tier that is served next: the smallest key, and among tiers that are late their shares and ceilings first.

While no tier is late, least laxity first keeps every deadline that can be kept, and a share would only put another run
before it. A tier is late while its best run that may start is past its key; nobody starves, since who waits long enough
is late. Late tiers divide the dispatches: each earns its share of a dispatch with every dispatch during which it is
late. A tier that has earned a whole one is owed the next; among several the one whose next guarantee would be broken
first goes first. This is earliest deadline first over unit jobs, which keeps every promise while the shares add up to
at most 1 (Liu and Layland 1973; Baruah et al., proportionate progress, 1996). What nobody is owed goes by key. The Lua
scripts repeat this arithmetic (`lua/shares.lua`).
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
    """Parts of all dispatches for tiers that are late, critical first: `guaranteed` at least, `ceilings` at most.

    A ceiling holds while another tier is late too.
    """

    guaranteed: tuple[float, ...] = (0.30, 0.20, 0.15, 0.10, 0.05)
    ceilings: tuple[float, ...] = (0.80, 0.70, 0.60, 0.50, 0.40)

    def __post_init__(self) -> None:
        sound = len(self.guaranteed) == len(self.ceilings) == TIERS and sum(self.guaranteed) <= 1 + 1e-9
        pairs = zip(self.guaranteed, self.ceilings, strict=False)
        if not (sound and all(0 < share < ceiling <= 1 for share, ceiling in pairs)):
            raise ValueError(f"five shares, each above 0 and below its ceiling, 1 at most in all; got {self}")

    def bound(self, rank: int) -> int:
        """Return within how many dispatches a tier is served from when it is late, whatever arrives.

        A promise falls due when the tier would have saved a second dispatch: after 2 / share dispatches, and one more
        because a dispatch cannot be cut in pieces. By then each other tier may be due one that it had saved before.
        """
        return math.ceil(_SAVED / self.guaranteed[rank - 1]) + TIERS


@dataclass(slots=True)
class ShareBalance:
    """The balance of each late tier: dispatches owed to it, and dispatches left below its ceiling."""

    owed: list[float] = field(default_factory=lambda: [0.0] * TIERS)
    room: list[float] = field(default_factory=lambda: [_SAVED] * TIERS)


def choose(shares: Shares, balance: ShareBalance, heads: Sequence[float | None], now: float) -> int | None:
    """Return the index of the tier to look at next; `heads` are the smallest keys of what may start, None without."""
    late = overdue(heads, now)
    owed = [tier for tier in late if balance.owed[tier] >= 1]
    if owed:
        return min(owed, key=lambda tier: ((_SAVED - balance.owed[tier]) / shares.guaranteed[tier], tier))
    waiting = [tier for tier in range(TIERS) if heads[tier] is not None]
    below = [tier for tier in late if balance.room[tier] >= 1] or waiting
    return min(below, key=lambda tier: (heads[tier], tier), default=None)


def overdue(heads: Sequence[float | None], now: float) -> list[int]:
    """Return the tiers whose best run should have started by now: shares and ceilings act between these alone."""
    return [tier for tier, key in enumerate(heads) if key is not None and key < now]


def served(shares: Shares, balance: ShareBalance, late: Sequence[int], tier: int) -> None:
    """Note that `tier` got a dispatch while all in `late` were overdue; where nobody was, nothing counts."""
    for each in late:
        owed = balance.owed[each] + shares.guaranteed[each] - (each == tier)
        balance.owed[each] = min(_SAVED, max(0.0, owed))
    if len(late) > 1:
        for each in late:
            room = balance.room[each] + shares.ceilings[each] - (each == tier)
            balance.room[each] = min(_SAVED, max(-_SAVED, room))
