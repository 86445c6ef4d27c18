"""Trends of the tiers: how many runs waited, how long, and how many missed their deadline, in parts of some time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from duetime.scheduler.task import Tier


@dataclass(frozen=True, slots=True)
class TierPart:
    """A tier in one part of the time.

    `waiting` is how many runs were due and had not begun, on average. `longest_wait` is that of the runs that began in
    it, in the last part also of those that wait still; None where there are none. `due` runs with a deadline ended in
    it; `missed` of them failed or ended late, `latest` by how much.
    """

    waiting: float = 0.0
    longest_wait: timedelta | None = None
    due: int = 0
    missed: int = 0
    latest: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class ActionMisses:
    """Ended runs of an action that had a deadline, and how many of them missed it."""

    action: str
    due: int
    missed: int
    latest: timedelta


@dataclass(frozen=True, slots=True)
class TierTrends:
    """The parts of each tier, oldest first, and the deadlines by action, most misses first.

    With a `counted_to`, older runs were not counted.
    """

    starts: Sequence[datetime]
    tiers: Mapping[Tier, Sequence[TierPart]] = field(default_factory=dict)
    actions: Sequence[ActionMisses] = ()
    counted_to: datetime | None = None
