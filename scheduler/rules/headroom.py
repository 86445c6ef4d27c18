"""Headroom: idle threads that a worker reserves for urgent runs, so that such a run starts at once.

A run of a tier starts only while more threads are idle than its tier leaves to more urgent ones. So threads are a pool
with headroom, as in `rules/limits/admission.py`, except that critical and high each have headroom of their own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Protocol

from duetime.scheduler.rules.shares import TIER_COUNT

Headroom = tuple[int, ...]
"""By tier, critical first: the number of idle threads that a run of the tier leaves to more urgent runs."""

NO_HEADROOM: Final[Headroom] = (0,) * TIER_COUNT


@dataclass(frozen=True, slots=True)
class HeadroomParts:
    """Parts of a worker's threads: reserved for `critical` runs, and for critical and `high` runs in all."""

    critical: float = 1 / 16
    high: float = 1 / 8

    def of(self, threads: int) -> Headroom:
        """Return the headroom of this many threads, in whole threads, rounded down.

        A worker too small for a whole thread reserves none, and every worker leaves at least one thread to all tiers.
        By default 16 threads reserve one for critical runs and one more for critical and high ones. With 8 threads, one
        is reserved for both; with fewer than 8 none is, and preemption has to do.
        """
        return _headroom(threads, self.critical, self.high)


DEFAULT_HEADROOM: Final = HeadroomParts()


class HeadroomRule(Protocol):
    """Says how many threads of a worker are reserved: by fixed parts, or by the policy of the moment."""

    def of(self, threads: int) -> Headroom: ...


def may_start(headroom: Headroom, tier: int, idle: int) -> bool:
    """Whether a run of `tier` may start on a worker with this many idle threads."""
    return idle > headroom[tier - 1]


def are_reserved(headroom: Headroom, idle: int) -> bool:
    """Whether this many idle threads are all reserved, so that only urgent runs may start on them."""
    return idle <= max(headroom)


def least_urgent(headroom: Sequence[int], idle: int) -> int:
    """Return the least urgent tier that may start on this many idle threads; 0 when none may."""
    return sum(idle > kept for kept in headroom)


@lru_cache(maxsize=64)  # asked for whenever a run leaves its thread
def _headroom(threads: int, critical_part: float, high_part: float) -> Headroom:
    critical = _whole(threads, critical_part)
    urgent = max(critical, _whole(threads, high_part))
    return (0, critical, *(urgent,) * (TIER_COUNT - 2))


def _whole(threads: int, part: float) -> int:
    return max(0, min(math.floor(threads * part + 1e-9), threads - 1))
