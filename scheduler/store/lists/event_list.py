"""Lists events, newest first: those of one task by number, which no clock affects; those of many tasks by time.

Rare words are looked up by their indexes. A short way back in time finds common ones, and those that are all further
back are looked up as well. No planner chooses among these for words in either of two tables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from duetime.scheduler.events import Event, EventFilter
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.rows import EVENT
from duetime.scheduler.store.schema.tables import events, tasks
from duetime.scheduler.store.schema.values import from_microseconds
from duetime.scheduler.store.sql.task_filter import labelled
from duetime.scheduler.store.statements.event_log import events_of
from duetime.scheduler.store.text_index import text_search
from duetime.scheduler.store.text_index.text_search import Condition, Matches
from sqlalchemy import Connection, Select, or_, select, tuple_

EventRows = list[Event]
Behind = Sequence[int | str]

MAX_EVENTS_READ_FIRST = 5_000
MAX_EVENTS_READ_SOON = 25_000
"""Events of a tenant that are read back in time for common words, before these are looked up."""

MIN_EVENTS_FOUND_FIRST = 5
"""Events among the first ones that promise a page among the next; with fewer, the words are further back."""

_EVENTS = select(*EVENT)
_WITH_TASK = events.join(tasks, tasks.c.id == events.c.task_id)
_KEY = (events.c.at, events.c.id)
_TYPES = [column.type for column in _KEY]


def page(connection: Connection, tenant: str, where: EventFilter, *, limit: int, behind: Behind) -> EventRows:
    """Return the next `limit` events of a tenant behind a position."""
    return _EventReader(connection, tenant, where, limit, behind).page()


@dataclass(frozen=True, slots=True)
class _EventReader:
    """Reads one page of one tenant's events."""

    connection: Connection
    tenant: str
    where: EventFilter
    limit: int
    behind: Behind

    def page(self) -> EventRows:
        words = self.where.text if self.where.task_id is None else None
        if words is None:
            return self._of_tenant()
        found = self._looked_up(*text_search.rare_matches(self.connection, words))
        if found is None:
            found = self._soon()
        if found is None:
            found = self._looked_up(*text_search.common_matches(self.connection, self.tenant, words))
        return self._of_tenant() if found is None else found

    def _of_tenant(self, *conditions: Condition) -> EventRows:
        statement = _EVENTS.select_from(_WITH_TASK).where(events.c.tenant == self.tenant, *_conditions(self.where))
        return self._read(statement.where(*conditions))

    def _looked_up(self, titles: Matches, reasons: Matches) -> EventRows | None:
        """Read by ids alone, because a planner would choose the index of the tenant's events."""
        if not (titles.complete and reasons.complete):
            return None
        words = str(self.where.text)
        of_titles = text_search.among(self.connection, events.c.task_id, titles.ids)
        of_reasons = text_search.among(self.connection, events.c.id, reasons.ids)
        found = (*self._among(of_titles), *self._among(of_reasons, text_search.gives_reason(words)))
        newest = sorted({row.id: row for row in found}.values(), key=lambda row: (row.at, row.id), reverse=True)
        return newest[: self.limit]

    def _among(self, *conditions: Condition) -> EventRows:
        """Read events that have the text; their tasks only for other conditions, as that takes most of the time."""
        others = replace(self.where, text=None)
        joined = others.action is not None or others.label is not None
        ids = select(events.c.id).select_from(_WITH_TASK if joined else events).where(*conditions, *_conditions(others))
        ids = self._first(ids.where(text_search.unindexed(events.c.tenant) == self.tenant))
        return events_of(self.connection, _EVENTS.where(events.c.id.in_(ids)))

    def _soon(self) -> EventRows | None:
        """Read a short way back; return None when there may be more further back."""
        found, complete = self._newest(MAX_EVENTS_READ_FIRST)
        if not complete and len(found) >= min(MIN_EVENTS_FOUND_FIRST, self.limit):
            found, complete = self._newest(MAX_EVENTS_READ_SOON)
        return found if complete else None

    def _newest(self, most: int) -> tuple[EventRows, bool]:
        """Find the words among the newest `most` events of the tenant; tell whether that is all of the page."""
        times = (_MEANINGS[name](getattr(self.where, name)) for name in ("since", "until") if getattr(self.where, name))
        every = self._ordered(select(*_KEY).where(events.c.tenant == self.tenant, *times))
        last = next(iter(unreadable.rows(self.connection, every.limit(1).offset(most))), None)
        found = self._of_tenant(*([] if last is None else [tuple_(*_KEY) >= tuple_(*last, types=_TYPES)]))
        return found, last is None or len(found) == self.limit

    def _read(self, statement: Select[Any]) -> EventRows:
        return events_of(self.connection, self._first(statement))

    def _first(self, statement: Select[Any]) -> Select[Any]:
        if self.where.label is not None:
            statement = statement.where(labelled(self.tenant, self.where.label))
        return self._ordered(statement).limit(self.limit)

    def _ordered(self, statement: Select[Any]) -> Select[Any]:
        if self.where.task_id is None:
            return behind_in_time(statement, _KEY, self.behind)
        if self.behind:
            statement = statement.where(events.c.seq < self.behind[0])
        return statement.order_by(events.c.seq.desc())


def behind_in_time(statement: Select[Any], key: tuple[Any, Any], behind: Behind) -> Select[Any]:
    """Return the rows behind a position, newest first; `key` is a time and an id."""
    if behind:
        last = (from_microseconds(int(behind[0])), behind[1])
        statement = statement.where(tuple_(*key) < tuple_(*last, types=[column.type for column in key]))
    return statement.order_by(*(column.desc() for column in key))


def _says(words: str) -> Condition:
    return or_(text_search.titled(words), text_search.gives_reason(words))


_MEANINGS: dict[str, Callable[[Any], Condition]] = {
    "task_id": lambda task_id: events.c.task_id == task_id,
    "since": lambda instant: events.c.at >= instant,
    "until": lambda instant: events.c.at < instant,
    "state": lambda state: events.c.to_state == state,
    "action": lambda action: tasks.c.action == action,
    "text": _says,
}


def _conditions(where: EventFilter) -> list[Condition]:
    given = ((meaning, getattr(where, name)) for name, meaning in _MEANINGS.items())
    return [meaning(value) for meaning, value in given if value is not None]
