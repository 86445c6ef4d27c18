"""The query of a list of runs: what stands in the address becomes a filter, and what a filter may be set to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from duetime.scheduler.history.runs import RunCounts, RunFilter, RunPage
from duetime.scheduler.intake.bounds import Bounds
from duetime.scheduler.task import State, Tier
from duetime.scheduler.views import Standing
from duetime.server.admin.answers import LIST_PARAMETERS, PAGE_ROWS
from duetime.server.admin.failures import unknown
from duetime.server.admin.page_request import Visit
from duetime.tools.admin.event_filter import count_given
from duetime.tools.admin.run_rows import SPAN_ARGUMENTS, cost_given, read_span

TO_COME = "to_come"
"""The kind of runs of which the first one due comes first."""

OVERDUE = "overdue"
"""The kind of runs that should have started; a paused task is not late."""

OVERDUE_UNTIL = "1 minute ago"

RUN_KINDS: Mapping[str, tuple[State, ...]] = {
    "": (),
    TO_COME: (State.SCHEDULED,),
    "waiting": (State.WAITING,),
    "ready": (State.READY,),
    "running": (State.RUNNING,),
    OVERDUE: (State.SCHEDULED, State.READY, State.RETRYING, State.SUSPENDED),
    "trying_again": (State.RETRYING, State.SUSPENDED),
    "succeeded": (State.SUCCEEDED,),
    "failed": (State.FAILED, State.EXPIRED),
    "cancelled": (State.CANCELLED, State.SKIPPED),
}
"""Kinds of runs, as tabs name them; the first one is all but those that are to come."""

_TEXTS = {
    "q": "text",
    "task": "task_id",
    **{name: name for name in ("title", "error", "action", "label", "worker", "actor", "pool")},
}
"""Parameters of the address, and the conditions of the filter that they set."""

_READ: Mapping[str, Callable[[str], Any]] = {
    **{name: partial(read_span, name) for name in SPAN_ARGUMENTS},
    **{name: partial(count_given, name) for name in ("min_attempts", "min_units")},
    "min_cost": cost_given,
}
"""The same of those that are no texts."""

RUN_PARAMETERS = frozenset({*_TEXTS, *_READ, *LIST_PARAMETERS, "state", "priority"})


@dataclass(frozen=True, slots=True)
class RunQuery:
    """A filter with its bounds as instants, and the cursor that goes with them."""

    where: RunFilter
    bounds: Bounds

    @classmethod
    def of(cls, visit: Visit) -> RunQuery:
        """Read the address; times are words or dates in the viewer's zone. Raises InvalidArgument."""
        query = visit.query
        given: dict[str, Any] = {name: query[key].strip() for key, name in _TEXTS.items() if query.get(key, "").strip()}
        given |= {name: read(query[name].strip()) for name, read in _READ.items() if query.get(name, "").strip()}
        kind, tier = query.get("state", ""), query.get("priority", "")
        standing = Standing(kind) if kind in set(Standing) else None
        where = RunFilter(states=() if standing else _states(kind), standing=standing, tier=_tier(tier), **given)
        since, until = query.get("since", "").strip() or None, query.get("until", "").strip() or None
        where = replace(where, oldest_first=kind == TO_COME, unpaused=kind == OVERDUE)
        until = until or (OVERDUE_UNTIL if kind == OVERDUE else None)
        if until is None and not (where.states or where.standing):
            until, where = "now", replace(where, or_begun=True)
        return cls(where, Bounds.of(query.get("cursor"), visit.now, visit.zone, since=since, until=until))

    def page(self, visit: Visit, limit: int = PAGE_ROWS, cursor: str | None = None) -> RunPage:
        """Return a page of runs."""
        return visit.scheduler.past.runs(
            self.where,
            since=self._bound("since"),
            until=self._bound("until"),
            limit=limit,
            cursor=cursor or self.bounds.cursor,
            tenant=visit.reach,
            by=visit.principal,
        )

    def counted(self, visit: Visit) -> RunCounts:
        """Return how many runs there are in each state."""
        since, until = self._bound("since"), self._bound("until")
        return visit.scheduler.past.run_counts(
            where=self.where, since=since, until=until, tenant=visit.reach, by=visit.principal
        )

    def _bound(self, name: str) -> datetime | None:
        found: datetime | None = self.bounds.instants.get(name)
        return found


def _states(kind: str) -> tuple[State, ...]:
    if kind in RUN_KINDS:
        return RUN_KINDS[kind]
    try:
        return tuple(State(each) for each in kind.split(","))
    except ValueError:
        raise unknown("state", kind, [*filter(None, RUN_KINDS), *State, *Standing]) from None


def _tier(word: str) -> Tier | None:
    try:
        return Tier(word) if word else None
    except ValueError:
        raise unknown("priority", word, Tier) from None
