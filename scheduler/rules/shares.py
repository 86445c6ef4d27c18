"""The choice of the next tier: the smallest key, but late tiers first, by their shares. Twin: lua/order/shares.lua.

While no tier is late, least laxity first keeps every deadline that can be kept, and a share would only
put another run before it. A tier is late while its best run that may start is past its key. So every run that waits is
late some time, and none starves. Late tiers divide the dispatches: each earns its share with every dispatch during
which it is late. A tier that has earned a whole dispatch gets the next one; among several, the tier whose next
guarantee would be broken first. This is earliest deadline first over unit jobs. It keeps every guarantee while the
shares add up to at most 1 (Liu and Layland 1973; Baruah et al., proportionate progress, 1996). A dispatch that no tier
has earned goes by key.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

TIER_COUNT = 5
MAX_DISPATCHES_SAVED = 2.0
"""Dispatches that a tier can save up, owed or below its ceiling, which bounds its bursts."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Parts of all dispatches for tiers that are late, critical first: `guaranteed` at least, `ceilings` at most.

    A ceiling holds while another tier is late too.
    """

    guaranteed: tuple[float, ...] = (0.30, 0.20, 0.15, 0.10, 0.05)
    ceilings: tuple[float, ...] = (0.80, 0.70, 0.60, 0.50, 0.40)

    def __post_init__(self) -> None:
        sound = len(self.guaranteed) == len(self.ceilings) == TIER_COUNT and sum(self.guaranteed) <= 1 + 1e-9
        pairs = zip(self.guaranteed, self.ceilings, strict=False)
        if not (sound and all(0 < share < ceiling <= 1 for share, ceiling in pairs)):
            raise ValueError(f"five shares, each above 0 and below its ceiling, 1 at most in all; got {self}")

    def bound(self, rank: int) -> int:
        """Return the number of dispatches within which a tier is served after it becomes late, under any load.

        The guarantee falls due when the tier would have saved a second dispatch. That is after 2 / share dispatches,
        and one more because a dispatch cannot be divided. By then each other tier may be due one that it had saved
        before.
        """
        return math.ceil(MAX_DISPATCHES_SAVED / self.guaranteed[rank - 1]) + TIER_COUNT


@dataclass(slots=True)
class ShareBalance:
    """The balance of each late tier: dispatches owed to it, and dispatches left below its ceiling."""

    owed: list[float] = field(default_factory=lambda: [0.0] * TIER_COUNT)
    room: list[float] = field(default_factory=lambda: [MAX_DISPATCHES_SAVED] * TIER_COUNT)


def choose(shares: Shares, balance: ShareBalance, heads: Sequence[float | None], now: float) -> int | None:
    """Return the index of the next tier to examine; `heads` are the smallest keys that may start, None without."""
    late = overdue(heads, now)
    owed = [tier for tier in late if balance.owed[tier] >= 1]
    if owed:
        return min(owed, key=lambda tier: ((MAX_DISPATCHES_SAVED - balance.owed[tier]) / shares.guaranteed[tier], tier))
    waiting = [tier for tier in range(TIER_COUNT) if heads[tier] is not None]
    below = [tier for tier in late if balance.room[tier] >= 1] or waiting
    return min(below, key=lambda tier: (heads[tier], tier), default=None)


def overdue(heads: Sequence[float | None], now: float) -> list[int]:
    """Return the tiers whose best run is past its key: shares and ceilings count only between these."""
    return [tier for tier, key in enumerate(heads) if key is not None and key < now]


def count_dispatch(shares: Shares, balance: ShareBalance, late: Sequence[int], tier: int) -> None:
    """Count a dispatch of `tier` while all in `late` were overdue; without a late tier nothing counts."""
    for each in late:
        owed = balance.owed[each] + shares.guaranteed[each] - (each == tier)
        balance.owed[each] = min(MAX_DISPATCHES_SAVED, max(0.0, owed))
    if len(late) > 1:
        for each in late:
            room = balance.room[each] + shares.ceilings[each] - (each == tier)
            balance.room[each] = min(MAX_DISPATCHES_SAVED, max(-MAX_DISPATCHES_SAVED, room))
