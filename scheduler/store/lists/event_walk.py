"""Walks back over the events of a tenant in the order of their times, as far as a page or a count needs.

One index has the events of a tenant in order. A walk for conditions that it does not know stops after a number of
events, so its cost has a bound. A condition on the task of an event is a subquery for each event. A planner cannot turn
that into a join that begins with the tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from duetime.scheduler.events import EventFilter
from duetime.scheduler.ids import is_chain_id
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.dialects import StoreDialect, dialect_of
from duetime.scheduler.store.lists.event_runs import of_run
from duetime.scheduler.store.schema.damage import DamagedValue
from duetime.scheduler.store.schema.tables.chains import chain_steps
from duetime.scheduler.store.schema.tables.events import events
from duetime.scheduler.store.schema.tables.tasks import labels, tasks
from duetime.scheduler.store.schema.values import FIRST_INSTANT, LAST_INSTANT
from duetime.scheduler.store.text_index.text_search import Condition, gives_reason, titled_by_reading
from sqlalchemy import ColumnElement, Connection, Select, func, or_, select, tuple_

MAX_EVENTS_COMPARED_FIRST = 1_000
MAX_EVENTS_COMPARED = 10_000
"""Events of a tenant that a page compares with what no index holds: a short page continues behind them."""

_KEY = (events.c.at, events.c.id)
_TYPES = [column.type for column in _KEY]


class EventKey(NamedTuple):
    """The place of an event in the history."""

    at: datetime
    id: int


class FoundKeys(NamedTuple):
    """Keys of events, newest first. All down to `searched_to` were compared; None when all were, or enough found."""

    keys: Sequence[EventKey]
    searched_to: EventKey | None = None


@dataclass(frozen=True, slots=True)
class EventWalk:
    """The events of a tenant that a filter's times allow, behind a place in the history."""

    connection: Connection
    tenant: str
    where: EventFilter
    behind: EventKey | None = None

    def first(self, limit: int) -> FoundKeys:
        """Return the first events that meet the filter: of the newest thousand, or else of ten times as many."""
        conditions = compared(self.tenant, self.where, dialect_of(self.connection))
        if not conditions:
            return FoundKeys(self._keys(self.rows(*_KEY), limit))
        soon = self._searched(conditions, limit, MAX_EVENTS_COMPARED_FIRST)
        return soon if soon.searched_to is None else self._searched(conditions, limit, MAX_EVENTS_COMPARED)

    def boundary(self, count: int) -> EventKey | None:
        """Return the key of the event with this number, counted from 1; None when none is behind it."""
        last = self._keys(self.rows(*_KEY), 2, offset=count - 1)
        return last[0] if last[1:] else None

    def rows(self, *columns: Any, conditions: Sequence[Condition] = (), down_to: EventKey | None = None) -> Select[Any]:
        """Return a statement for these columns of the events that meet the conditions, down to a place."""
        found = select(*columns).select_from(events).where(events.c.tenant == self.tenant, *conditions)
        for bound, column in ((self.where.since, events.c.at.__ge__), (self.where.until, events.c.at.__lt__)):
            found = found if bound is None else found.where(column(bound))
        if self.behind is not None:
            found = found.where(tuple_(*_KEY) < tuple_(*self.behind, types=_TYPES))
        return found if down_to is None else found.where(tuple_(*_KEY) >= tuple_(*down_to, types=_TYPES))

    def _searched(self, conditions: Sequence[Condition], limit: int, most: int) -> FoundKeys:
        reached = self.boundary(most)
        found = self._keys(self.rows(*_KEY, conditions=conditions, down_to=reached), limit)
        return FoundKeys(found, None if len(found) == limit else reached)

    def _keys(self, found: Select[Any], limit: int, *, offset: int = 0) -> list[EventKey]:
        newest = found.order_by(*(column.desc() for column in _KEY)).limit(limit)
        rows = unreadable.rows(self.connection, newest.offset(offset) if offset else newest)
        return [EventKey(_time(at), event_id) for at, event_id in rows]


def _time(at: datetime | DamagedValue) -> datetime:
    """Return the time of a place; a damaged one is where the database sorts it, and hides no other event."""
    if not isinstance(at, DamagedValue):
        return at
    return FIRST_INSTANT if at.stored.startswith("-") else LAST_INSTANT


def compared(tenant: str, where: EventFilter, dialect: StoreDialect) -> list[Condition]:
    """Return the conditions that each event is compared with."""
    found = [meaning(value) for name, meaning in OWN_CONDITIONS.items() if (value := getattr(where, name)) is not None]
    if where.action is not None:
        found.append(_of_task(tasks.c.action == where.action))
    if where.tier is not None:
        found.append(_of_task(tasks.c.priority == where.tier))
    if where.title is not None:
        found.append(_of_task(titled_by_reading(where.title)))
    if where.label is not None:
        of_task = (labels.c.tenant == tenant, labels.c.label == where.label, labels.c.task_id == events.c.task_id)
        found.append(_subquery(select(func.count()).where(*of_task)) > 0)
    if where.text is not None:
        found.append(or_(_of_task(titled_by_reading(where.text)), gives_reason(where.text)))
    return [*found, *of_run(tenant, where, dialect)]


def _came_by(via: str) -> Condition:
    """Return the condition that a change came through a surface; one without an address matches all its addresses."""
    return or_(events.c.via == via, events.c.via.startswith(f"{via} ", autoescape=True))


OWN_CONDITIONS: dict[str, Callable[[Any], Condition]] = {
    "state": lambda state: events.c.to_state == state,
    "kind": lambda kind: events.c.kind == kind,
    "actor": lambda actor: events.c.actor == actor,
    "via": _came_by,
}
"""The conditions that an event meets by itself."""


def _of_task(condition: Condition) -> Condition:
    return _subquery(select(condition).where(tasks.c.id == events.c.task_id)).is_(True)


def _subquery(statement: Any) -> ColumnElement[Any]:
    found: ColumnElement[Any] = statement.correlate(events).scalar_subquery()
    return found


def of_task(task_id: str) -> Condition:
    """Whether an event is of a task, or of a step of a chain."""
    if not is_chain_id(task_id):
        return events.c.task_id == task_id
    return events.c.task_id.in_(select(chain_steps.c.task_id).where(chain_steps.c.chain_id == task_id))
