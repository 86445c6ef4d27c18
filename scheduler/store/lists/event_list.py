"""Lists events, newest first: those of one task by number, which no clock affects; those of many tasks by time.

A label of few tasks, rare titles and rare words are looked up by their indexes. A short way back in time finds common
words, and those that are all further back are looked up as well. No planner chooses among these for words in either of
two tables. Other conditions are compared on a walk back in time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

from duetime.scheduler.events import Event, EventFilter
from duetime.scheduler.ids import is_chain_id
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.lists.event_runs import of_run
from duetime.scheduler.store.lists.event_walk import OWN_CONDITIONS, EventKey, EventWalk, of_task
from duetime.scheduler.store.lists.tenants import tenants
from duetime.scheduler.store.schema.rows import EVENT_FIELDS
from duetime.scheduler.store.schema.tables.events import events
from duetime.scheduler.store.schema.tables.tasks import labels, tasks
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

_EVENTS = select(*EVENT_FIELDS)
_WITH_TASK = events.join(tasks, tasks.c.id == events.c.task_id)
_KEY = (events.c.at, events.c.id)
_TYPES = [column.type for column in _KEY]


class FoundEvents(NamedTuple):
    """Events, newest first. All down to `searched_to` were compared; None when all were, or enough were found."""

    rows: EventRows
    searched_to: EventKey | None = None


def page(connection: Connection, tenant: str | None, where: EventFilter, *, limit: int, behind: Behind) -> FoundEvents:
    """Return the next `limit` events behind a position: of a tenant, None for all tenants."""
    named = tenants(connection) if tenant is None else [tenant]
    found = [_EventReader(connection, each, where, limit, behind).page() for each in named]
    found = [each for each in found if each.rows or each.searched_to]  # a task is one tenant's
    return found[0] if len(found) == 1 else merged(found, limit)


def merged(found: Sequence[FoundEvents], limit: int) -> FoundEvents:
    """Return the newest events of several tenants: those down to where all of them were searched."""
    newest = sorted(chain.from_iterable(each.rows for each in found), key=_key, reverse=True)[:limit]
    reached = max((each.searched_to for each in found if each.searched_to), default=None)
    inside = newest if reached is None else [row for row in newest if _key(row) >= reached]
    return FoundEvents(inside) if len(inside) == limit else FoundEvents(inside, reached)


def _key(event: Event) -> EventKey:
    return EventKey(event.at, event.id)


@dataclass(frozen=True, slots=True)
class _EventReader:
    """Reads one page of one tenant's events."""

    connection: Connection
    tenant: str
    where: EventFilter
    limit: int
    behind: Behind

    def page(self) -> FoundEvents:
        if self.where.task_id is not None:
            return FoundEvents(self._of_tenant())
        found = self._of_known_tasks() if self.where.text is None else self._with_words(self.where.text)
        return self._walked() if found is None else FoundEvents(found)

    def _walked(self) -> FoundEvents:
        keys, searched_to = EventWalk(self.connection, self.tenant, self.where, _place(self.behind)).first(self.limit)
        order = {key.id: place for place, key in enumerate(keys)}
        read = events_of(self.connection, _EVENTS.where(events.c.id.in_(list(order))))
        return FoundEvents(sorted(read, key=lambda row: order[row.id]), searched_to)

    def _of_known_tasks(self) -> EventRows | None:
        """Look up the events of a title's tasks, or of a label's, where these are few."""
        if self.where.title is not None:
            titled = self._of_few(text_search.rare_titles(self.connection, self.where.title))
            if titled is not None:
                return titled
        if self.where.label is None:
            return None
        of_label = (labels.c.tenant == self.tenant, labels.c.label == self.where.label)
        tasks_of = select(labels.c.task_id).where(*of_label)
        return self._of_few(text_search.first(self.connection, tasks_of, text_search.MAX_INDEXED_MATCHES))

    def _of_few(self, found: Matches) -> EventRows | None:
        """Look up the events of these tasks; None where there are more tasks, or too many events."""
        of_tasks = text_search.among(self.connection, events.c.task_id, found.ids)
        few = found.complete and text_search.has_at_most(self.connection, of_tasks, text_search.MAX_EVENTS_OF_MATCHES)
        return sorted(self._among(of_tasks), key=_key, reverse=True) if few else None

    def _with_words(self, words: str) -> EventRows | None:
        titles, reasons = text_search.rare_matches(self.connection, words)
        of_titles = text_search.among(self.connection, events.c.task_id, titles.ids) if titles.complete else None
        found = self._looked_up(of_titles, reasons)
        if found is None:
            found = self._soon()
        if found is None:
            found = self._looked_up(*text_search.common_matches(self.connection, self.tenant, words))
        return found

    def _of_tenant(self, *conditions: Condition) -> EventRows:
        statement = _EVENTS.select_from(_WITH_TASK).where(events.c.tenant == self.tenant, *_conditions(self.where))
        return self._read(statement.where(*conditions, *self._of_run()))

    def _of_run(self) -> list[Condition]:
        return of_run(self.tenant, self.where, dialect_of(self.connection))

    def _looked_up(self, of_titles: Condition | None, reasons: Matches) -> EventRows | None:
        """Read by ids alone, because a planner would choose the index of the tenant's events."""
        if of_titles is None or not reasons.complete:
            return None
        words = str(self.where.text)
        of_reasons = text_search.among(self.connection, events.c.id, reasons.ids)
        found = (*self._among(of_titles), *self._among(of_reasons, text_search.gives_reason(words)))
        newest = sorted({row.id: row for row in found}.values(), key=lambda row: (row.at, row.id), reverse=True)
        return newest[: self.limit]

    def _among(self, *conditions: Condition) -> EventRows:
        """Read events that have the text; their tasks only for other conditions, as that takes most of the time."""
        others = replace(self.where, text=None)
        joined = any(each is not None for each in (others.action, others.tier, others.title, others.label))
        ids = select(events.c.id).select_from(_WITH_TASK if joined else events).where(*conditions, *_conditions(others))
        ids = self._first(ids.where(*self._of_run(), text_search.unindexed(events.c.tenant) == self.tenant))
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
        if not is_of_one_task(self.where):
            return behind_in_time(statement, _KEY, self.behind)
        if self.behind:
            statement = statement.where(events.c.seq < self.behind[0])
        return statement.order_by(events.c.seq.desc())


def _place(behind: Behind) -> EventKey | None:
    return EventKey(from_microseconds(int(behind[0])), int(behind[1])) if behind else None


def behind_in_time(statement: Select[Any], key: tuple[Any, Any], behind: Behind) -> Select[Any]:
    """Return the rows behind a position, newest first; `key` is a time and an id."""
    if behind:
        last = (from_microseconds(int(behind[0])), behind[1])
        statement = statement.where(tuple_(*key) < tuple_(*last, types=[column.type for column in key]))
    return statement.order_by(*(column.desc() for column in key))


def _has_words(words: str) -> Condition:
    return or_(text_search.titled(words), text_search.gives_reason(words))


def is_of_one_task(where: EventFilter) -> bool:
    """Whether the events of a filter are numbered one after another: those of a chain are not."""
    return where.task_id is not None and not is_chain_id(where.task_id)


_MEANINGS: dict[str, Callable[[Any], Condition]] = {
    "task_id": of_task,
    "since": lambda instant: events.c.at >= instant,
    "until": lambda instant: events.c.at < instant,
    **OWN_CONDITIONS,
    "action": lambda action: tasks.c.action == action,
    "tier": lambda tier: tasks.c.priority == tier,
    "title": text_search.titled_by_reading,
    "text": _has_words,
}


def _conditions(where: EventFilter) -> list[Condition]:
    given = ((meaning, getattr(where, name)) for name, meaning in _MEANINGS.items())
    return [meaning(value) for meaning, value in given if value is not None]
