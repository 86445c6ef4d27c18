"""Walks over the runs of a tenant in the order of their times, back or on, as far as a page or a count needs.

Each phase has its runs in order (`runs_by_phase`), those that are current apart from the others. The database merges
these ranges. A walk for conditions that no range covers stops after a number of runs, so its cost has a bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import product
from typing import Any, NamedTuple

from duetime.scheduler.history.runs import RunFilter
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.lists import run_filter
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.store.schema.values import instant
from duetime.scheduler.store.text_index import text_search
from duetime.scheduler.store.text_index.text_search import Condition
from duetime.scheduler.task import State
from sqlalchemy import (
    CompoundSelect,
    Connection,
    Select,
    and_,
    asc,
    desc,
    false,
    select,
    true,
    tuple_,
    type_coerce,
    union_all,
)
from sqlalchemy.types import NullType

Ranges = Select[Any] | CompoundSelect[Any]

LISTED_AT: Any = type_coerce(runs.c.listed_at, NullType()).label("at")
"""The time of a run as the driver gives it: a damaged one hides no other run."""

_KEY = (runs.c.listed_at, runs.c.id)
_OLDEST_FIRST = [column.asc() for column in _KEY]
_NEWEST_FIRST = [column.desc() for column in _KEY]
_CURRENT, _FORMER = (runs.c.current == one for one in (true(), false()))
_IN_PHASE: Mapping[State, Condition] = {phase: runs.c.phase == phase for phase in State}


class RunKey(NamedTuple):
    """The place of a run in the history."""

    at: datetime
    id: str


@dataclass(frozen=True, slots=True)
class RunWalk:
    """The runs of a tenant that a filter's states and times allow, behind a place in the history."""

    connection: Connection
    tenant: str
    where: RunFilter
    behind: RunKey | None = None

    def keys(self, conditions: Sequence[Condition], limit: int, *, as_far_as: RunKey | None = None) -> list[RunKey]:
        """Return the first keys that meet the conditions, as far as a place."""
        found = self._first(self.parts((LISTED_AT, runs.c.id), conditions, as_far_as), limit)
        return keys_of(self.connection, found, limit, oldest_first=self.where.oldest_first)

    def boundary(self, count: int) -> RunKey | None:
        """Return the key of the run with this number, counted from 1; None when none is behind it."""
        found = self._first(self.parts((LISTED_AT, runs.c.id), ()), count + 1)
        last = keys_of(self.connection, found, 2, oldest_first=self.where.oldest_first, offset=count - 1)
        return last[0] if last[1:] else None

    def parts(
        self, columns: Sequence[Any], conditions: Sequence[Condition], as_far_as: RunKey | None = None
    ) -> list[Select[Any]]:
        """Return a statement for each range: these columns of the runs that meet the conditions.

        All ranges share one object for what is the same in them: a page has up to 18, each of a dozen conditions.
        """
        inside = [runs.c.tenant == self.tenant, *run_filter.since(self.where), *self._behind(), *conditions]
        if as_far_as is not None:
            place = tuple_(*as_far_as, types=_TYPES)
            inside.append(tuple_(*_KEY) <= place if self.where.oldest_first else tuple_(*_KEY) >= place)
        found, shared = select(*columns), and_(*inside)
        ranges = product(run_filter.phases(self.where), (_CURRENT, _FORMER))
        return [found.where(when, *self._of_phase(phase), shared) for phase, when in ranges]

    def known(self, columns: Sequence[Any], known: Condition, conditions: Sequence[Condition]) -> Select[Any]:
        """Return a statement for runs known by ids or tasks, in a form where no other condition leads a plan."""
        owned = text_search.unindexed(runs.c.tenant) == self.tenant
        states = [runs.c.state.in_(self.where.states)] if self.where.states else []
        return select(*columns).where(known, owned, *states, *self._bounds(), *conditions)

    def _first(self, parts: Sequence[Select[Any]], most: int) -> Ranges:
        """Put ranges together of which the first runs are wanted.

        SQLite merges them by itself. PostgreSQL does where each one is ordered; else it reads and sorts all.
        """
        if dialect_of(self.connection).merges_ranges:
            return together(parts)
        order = _OLDEST_FIRST if self.where.oldest_first else _NEWEST_FIRST
        return together([part.order_by(*order).limit(most) for part in parts])

    def _bounds(self) -> list[Condition]:
        """Return the conditions on the time of a run, and on its place."""
        return [*run_filter.in_time(self.where), *self._behind()]

    def _behind(self) -> list[Condition]:
        if self.behind is None:
            return []
        place = tuple_(*self.behind, types=_TYPES)
        return [tuple_(*_KEY) > place if self.where.oldest_first else tuple_(*_KEY) < place]

    def _of_phase(self, phase: State) -> list[Condition]:
        until = run_filter.until(self.where, phase)
        return [_IN_PHASE[phase], *until, *run_filter.of_phase(self.where, phase)]


_TYPES = [column.type for column in _KEY]


def together(parts: Sequence[Select[Any]]) -> Ranges:
    return parts[0] if len(parts) == 1 else union_all(*parts)


def keys_of(
    connection: Connection, found: Ranges, limit: int, *, oldest_first: bool = False, offset: int = 0
) -> list[RunKey]:
    """Return the first keys of a statement for times and ids."""
    order = asc if oldest_first else desc
    first = found.order_by(order("at"), order("id")).limit(limit)
    rows: Iterable[Any] = connection.execute(first.offset(offset) if offset else first)
    return [RunKey(instant(at), run_id) for at, run_id in rows]
