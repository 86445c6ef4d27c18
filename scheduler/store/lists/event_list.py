"""Lists events, newest first: those of one task by number, which no clock affects; those of many tasks by time.

Rare words are looked up by their indexes. A short way back in time finds common ones, and those that are all further
back are looked up as well. No planner chooses among these for words in either of two tables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from duetime.scheduler.events import Event, EventFilter
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.rows import EVENT
from duetime.scheduler.store.schema.tables import events, tasks
from duetime.scheduler.store.schema.values import from_microseconds
from duetime.scheduler.store.sql.task_filter import labelled
from duetime.scheduler.store.statements.event_log import events_of
from duetime.scheduler.store.text_index import text_search
from duetime.scheduler.store.text_index.text_search import Condition
from sqlalchemy import Column, Connection, Select, or_, select, tuple_

EventRows = list[Event]
Behind = Sequence[int | str]

MAX_EVENTS_READ_SOON = 25_000
"""Events of a tenant that are read back in time for common words, before these are looked up."""

_EVENTS = select(*EVENT).select_from(events.join(tasks, tasks.c.id == events.c.task_id))
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
        matches = text_search.matching_events(self.connection, words) if words is not None else None
        if words is None or matches is None:
            return self._of_tenant()
        if matches.complete:
            return self._among(events.c.id, matches.ids)
        return self._soon() or self._further_back(words)

    def _of_tenant(self, *conditions: Condition) -> EventRows:
        return self._read(events.c.tenant == self.tenant, *conditions)

    def _among(self, column: Column[Any], ids: Sequence[Any]) -> EventRows:
        """Read by ids alone: a planner would choose the index of the tenant's events."""
        of_tenant = text_search.unindexed(events.c.tenant) == self.tenant
        return self._read(of_tenant, text_search.among(self.connection, column, ids))

    def _soon(self) -> EventRows | None:
        """Read a short way back; return None when there may be more further back."""
        times = (_MEANINGS[name](getattr(self.where, name)) for name in ("since", "until") if getattr(self.where, name))
        every = self._ordered(select(*_KEY).where(events.c.tenant == self.tenant, *times))
        last = next(iter(unreadable.rows(self.connection, every.limit(1).offset(MAX_EVENTS_READ_SOON))), None)
        if last is None:
            return self._of_tenant()
        found = self._of_tenant(tuple_(*_KEY) >= tuple_(*last, types=_TYPES))
        return found if len(found) == self.limit else None

    def _further_back(self, words: str) -> EventRows:
        """Look up common words; read all that is newer where they are too many."""
        titles, reasons = text_search.common_matches(self.connection, words)
        if not (titles.complete and reasons.complete):
            return self._of_tenant()
        found = (*self._among(events.c.task_id, titles.ids), *self._among(events.c.id, reasons.ids))
        newest = sorted({row.id: row for row in found}.values(), key=lambda row: (row.at, row.id), reverse=True)
        return newest[: self.limit]

    def _read(self, *conditions: Condition) -> EventRows:
        statement = _EVENTS.where(*_conditions(self.where), *conditions)
        if self.where.label is not None:
            statement = statement.where(labelled(self.tenant, self.where.label))
        return events_of(self.connection, self._ordered(statement).limit(self.limit))

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
