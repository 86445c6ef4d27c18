"""Reports of the work of some time: what was missed, how late, what it cost; what waits and how fast it goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

MAX_WORST_ACTIONS: Final = 5


@dataclass(frozen=True, slots=True)
class ActionWork:
    """The runs of one action that ended: `missed` of those with `deadlines`, each late by `lateness` in sum.

    A run that `failed` is one of the `dead_letters` unless it failed with a task that it came after. The deadline of
    one that was `cancelled` does not count.
    """

    action: str
    ended: int = 0
    failed: int = 0
    dead_letters: int = 0
    expired: int = 0
    cancelled: int = 0
    deadlines: int = 0
    missed: int = 0
    late: int = 0
    lateness: timedelta = timedelta()
    latest: timedelta = timedelta()


@dataclass(frozen=True, slots=True)
class WorkDone:
    """The runs that ended from `since` on and before `until`, by action, and the `units` used of each pool.

    With `at_least` there were more. `cost` is of all attempts that ended then, 0 where no pool had a price.
    """

    since: datetime
    until: datetime
    actions: tuple[ActionWork, ...] = ()
    units: Mapping[str, float] = field(default_factory=dict)
    at_least: bool = False
    cost: Decimal = Decimal(0)

    def total(self) -> ActionWork:
        """Return all actions together."""
        every = self.actions
        return ActionWork(
            "all",
            ended=sum(each.ended for each in every),
            failed=sum(each.failed for each in every),
            dead_letters=sum(each.dead_letters for each in every),
            expired=sum(each.expired for each in every),
            cancelled=sum(each.cancelled for each in every),
            deadlines=sum(each.deadlines for each in every),
            missed=sum(each.missed for each in every),
            late=sum(each.late for each in every),
            lateness=sum((each.lateness for each in every), timedelta()),
            latest=max((each.latest for each in every), default=timedelta()),
        )

    def worst(self) -> list[ActionWork]:
        """Return the actions of which most failed, expired or were late."""
        bad = [each for each in self.actions if each.failed or each.expired or each.missed]
        return sorted(bad, key=lambda each: (-(each.failed + each.missed), each.action))[:MAX_WORST_ACTIONS]


@dataclass(frozen=True, slots=True)
class WorkReport:
    """The work of some time, and that of the same time `before`, for the trend."""

    work: WorkDone
    before: WorkDone


@dataclass(frozen=True, slots=True)
class Waiting:
    """Ready runs of one tier, at least `count`; since when the oldest is ready for the attempt that it waits for."""

    count: int
    since: datetime
    at_least: bool = False


@dataclass(frozen=True, slots=True)
class Throughput:
    """Runs that became ready in the `window` up to now, attempts that started, runs that ended after being ready."""

    window: timedelta
    ready: int
    started: int
    ended: int
