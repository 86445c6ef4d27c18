"""How many idle threads a worker keeps for urgent runs, so that a run that cannot wait finds one at once.

A run of a tier starts only while more threads are idle than its tier leaves to more urgent ones. Threads are thus a
pool with headroom, as in `rules/limits/admission.py`, with one difference: critical and high each have headroom of
their own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from duetime.scheduler.rules.shares import TIERS

Headroom = tuple[int, ...]
"""By tier, critical first: how many idle threads a run of the tier leaves to more urgent runs."""

NO_HEADROOM: Final[Headroom] = (0,) * TIERS


@dataclass(frozen=True, slots=True)
class HeadroomParts:
    """Parts of a worker's threads: those kept for `critical` runs, and those for critical and `high` runs in all."""

    critical: float = 1 / 16
    high: float = 1 / 8

    def of(self, threads: int) -> Headroom:
        """Return the headroom of so many threads, in whole threads, rounded down.

        A worker too small for a whole thread keeps none, and every worker leaves at least one thread to everybody. By
        default 16 threads keep one for critical runs and one more for critical and high ones; 8 keep one for both;
        fewer than 8 keep none, and rely on runs that give way.
        """
        critical = _whole(threads, self.critical)
        urgent = max(critical, _whole(threads, self.high))
        return (0, critical, *(urgent,) * (TIERS - 2))


DEFAULT_HEADROOM: Final = HeadroomParts()


def may_start(headroom: Headroom, tier: int, idle: int) -> bool:
    """Whether a run of `tier` may start on a worker with so many idle threads."""
    return idle > headroom[tier - 1]


def least_urgent(headroom: Sequence[int], idle: int) -> int:
    """Return the least urgent tier that may start on so many idle threads; 0 when none may."""
    return sum(idle > kept for kept in headroom)


def _whole(threads: int, part: float) -> int:
    return max(0, min(math.floor(threads * part + 1e-9), threads - 1))
