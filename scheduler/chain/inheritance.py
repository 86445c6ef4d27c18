"""Urgency that a run inherits from the tasks that wait for it: their tiers, and their deadlines less their durations.

A run that others come after has to finish in time for them. Its deadline is that of each, less that one's duration and
all that lies between. This is the latest finish of the critical path method (Kelley & Walker 1959).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from graphlib import TopologicalSorter
from typing import NamedTuple

from duetime.scheduler.run_records import Waiter
from duetime.scheduler.task import Tier


@dataclass(frozen=True, slots=True)
class Inherited:
    """Urgency of tasks that wait for a run: how many there are by tier, and by when it has to finish for them.

    `due` is the deadline from which `finish_by` was counted back.
    """

    unblocks: Mapping[Tier, int] = field(default_factory=dict)
    finish_by: datetime | None = None
    due: datetime | None = None

    @property
    def count(self) -> int:
        return sum(self.unblocks.values())


class _Limit(NamedTuple):
    finish_by: datetime
    due: datetime


def inherit(task_id: str, waiters: Iterable[Waiter], length: Callable[[Waiter], timedelta]) -> Inherited:
    """Return what the run of a task inherits from those that wait for it, directly or behind others.

    Each counts once, however many ways lead to it. `length` is how long a waiter will take.
    """
    below: dict[str, dict[str, Waiter]] = {}
    for each in waiters:
        below.setdefault(each.upstream_id, {})[each.task_id] = each
    found = _reached(task_id, below)
    order = TopologicalSorter({name: below.get(name, {}).keys() for name in (task_id, *found)}).static_order()
    limits: dict[str, _Limit] = {}
    for name in order:
        ways = [limit for each in below.get(name, {}).values() if (limit := _before(each, limits, length))]
        if ways:
            limits[name] = min(ways)
    limit = limits.get(task_id)
    counts = Counter(each.tier for each in found.values())
    return Inherited(dict(counts), *(limit or (None, None)))


def _reached(task_id: str, below: Mapping[str, Mapping[str, Waiter]]) -> dict[str, Waiter]:
    found: dict[str, Waiter] = {}
    left = [task_id]
    while left:
        new = {name: each for name, each in below.get(left.pop(), {}).items() if name not in found}
        found |= new
        left += new
    return found


def _before(waiter: Waiter, limits: Mapping[str, _Limit], length: Callable[[Waiter], timedelta]) -> _Limit | None:
    """Return by when something must finish for a waiter, which itself must finish for others."""
    own = _Limit(waiter.deadline, waiter.deadline) if waiter.deadline else None
    known = [limit for limit in (own, limits.get(waiter.task_id)) if limit is not None]
    if not known:
        return None
    soonest = min(known)
    return _Limit(soonest.finish_by - length(waiter), soonest.due)
