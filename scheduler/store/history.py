"""History: the events, attempts and runs of tasks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from duetime.scheduler.events import Event, EventFilter, EventKind, EventPage
from duetime.scheduler.history.events import EventBucket, EventBuckets, EventCounts, EventGroup
from duetime.scheduler.history.runs import BucketWidth
from duetime.scheduler.ids import is_id
from duetime.scheduler.rules.states import NOT_RUN_PREFIX
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.lists import event_counts, event_list
from duetime.scheduler.store.lists.event_list import FoundEvents
from duetime.scheduler.store.lists.event_walk import EventKey
from duetime.scheduler.store.lists.time_buckets import spread
from duetime.scheduler.store.schema.rows import ATTEMPT_FIELDS, RUN_FIELDS
from duetime.scheduler.store.schema.tables.chains import chain_steps
from duetime.scheduler.store.schema.tables.tasks import attempts, runs, tasks, tracebacks
from duetime.scheduler.store.schema.values import to_microseconds
from duetime.scheduler.store.sql.cursors import Cursors
from duetime.scheduler.store.sql.hidden_numbers import HiddenNumbers
from duetime.scheduler.store.statements.event_log import latest, since
from duetime.scheduler.task import Attempt, Run
from sqlalchemy import Connection, Select, and_, bindparam, or_, select

MAX_TRACEBACKS: Final = 20
"""Tracebacks, of the newest attempts, that a list of attempts has: a task may have failed for years."""

_NOT_RUN: Final = (  # made once: to make it takes as long as to ask it
    select(*RUN_FIELDS)
    .where(runs.c.task_id == bindparam("task_id"), runs.c.tenant == bindparam("tenant"))
    .where(runs.c.ended_at.is_not(None), runs.c.started_at.is_(None))
    .where(or_(runs.c.error.is_not(None), runs.c.summary.startswith(NOT_RUN_PREFIX)))
    .order_by(runs.c.scheduled_for.desc(), runs.c.generation.desc())
    .limit(1)
)

_OF_ATTEMPT = and_(attempts.c.run_id == tracebacks.c.run_id, attempts.c.number == tracebacks.c.attempt)


class History:
    """Events of a tenant's tasks; and the events of all tenants, for change notifications."""

    def __init__(self, database: Database, cursors: Cursors) -> None:
        self._database = database
        self._cursors = cursors
        self._places = HiddenNumbers(database)

    def events(self, tenant: str | None, where: EventFilter, *, limit: int, cursor: str | None = None) -> EventPage:
        """Return a page of events, newest first: of a tenant, None for all tenants, for whom only an operator may ask.

        Raises `InvalidArgument` for a cursor of another list.
        """
        of = ("events", tenant, where)
        behind = self._cursors.read(cursor, of=of)

        def work(connection: Connection) -> FoundEvents:
            return event_list.page(connection, tenant, where, limit=limit + 1, behind=behind)

        found, reached = self._database.read(work)
        place = _position(found[limit - 1], where) if len(found) > limit else reached and _position(reached, where)
        following = self._cursors.write(place, of=of) if place else None
        return EventPage(tuple(found[:limit]), following, searched_to=reached.at if reached else None)

    def event_counts(self, tenant: str | None, where: EventFilter, by: EventGroup) -> EventCounts:
        """Return the number of events by group, the largest first: of the newest events where there are too many."""
        counts, reached = self._database.read(lambda connection: event_counts.groups(connection, tenant, where, by))
        return EventCounts(by, counts, reached)

    def event_buckets(
        self, tenant: str | None, where: EventFilter, width: BucketWidth, zone: str = "UTC"
    ) -> EventBuckets:
        """Return the number of events by time and kind, oldest first; days are those of the zone."""
        counted, reached = self._database.read(
            lambda connection: event_counts.minutes(connection, tenant, where, width)
        )
        found = (
            EventBucket(start, {EventKind(kind): count for kind, count in counts.items()})
            for start, counts in spread(counted, width, zone)
        )
        return EventBuckets(width, zone, tuple(found), reached)

    def attempts(self, tenant: str, task_id: str) -> list[Attempt]:
        """Return every attempt of every run of a task, in order of start; the newest with their tracebacks."""
        if not is_id(task_id):
            return []
        of_task = runs.c.task_id == task_id, runs.c.tenant == tenant
        statement = (
            select(*ATTEMPT_FIELDS)
            .select_from(attempts.join(runs, runs.c.id == attempts.c.run_id))
            .where(*of_task)
            .order_by(attempts.c.started_at, runs.c.id, attempts.c.number)
        )
        newest = _newest(select(*tracebacks.c).join(runs, runs.c.id == tracebacks.c.run_id).where(*of_task))
        return self._database.read(lambda connection: _with_tracebacks(connection, statement, newest))

    def not_run(self, tenant: str, task_id: str) -> Run | None:
        """Return the newest run of a task that was left out, with why: an answer, or none, or no event."""
        given = {"task_id": task_id, "tenant": tenant}
        found = self._database.look(lambda connection: unreadable.values(connection, _NOT_RUN, Run, RUN_FIELDS, given))
        return found[0][0] if found else None

    def failed_attempt(self, tenant: str, run_ids: Sequence[str]) -> Attempt | None:
        """Return the newest attempt of these runs of a tenant that has a traceback."""
        failed = tracebacks.c.run_id.in_(run_ids), runs.c.tenant == tenant
        source = tracebacks.join(runs, runs.c.id == tracebacks.c.run_id)
        statement = _newest(select(*ATTEMPT_FIELDS, tracebacks.c.text).select_from(source).where(*failed)).limit(1)
        columns = [*ATTEMPT_FIELDS, tracebacks.c.text]
        found = self._database.look(lambda connection: unreadable.values(connection, statement, Attempt, columns))
        return found[0][0] if found else None

    def latest(self) -> int:
        """Return the id of the newest event of any tenant, 0 when there is none."""
        return self._database.look(latest)

    def last_id(self) -> int:
        """Return the last id that an event got, 0 before the first: only a restored backup has a lower one.

        The event may be deleted, or its transaction open.
        """

        def work(connection: Connection) -> int:
            return connection.execute(dialect_of(connection).last_event_id()).scalar() or 0

        return self._database.look(work)

    def since(self, event_id: int, *, limit: int = 500) -> list[Event]:
        """Return the events of all tenants after `event_id`, oldest first; repeated polls return each exactly once."""
        return self._database.look(lambda connection: since(connection, event_id, limit))

    def cursor_at(self, tenant: str, event_id: int) -> str:
        """Return an encrypted name of the place behind an event, for who reads the events of a tenant as they come."""
        return self._places.hide(event_id, tenant)

    def place_of(self, tenant: str, cursor: str) -> int:
        """Return the id of the event that `cursor_at` named. Raises `InvalidArgument` for that of another tenant."""
        return self._places.reveal(cursor, tenant)

    def tenants(self, task_ids: Collection[str]) -> Mapping[str, str]:
        """Return the tenant of each of these tasks that exists, for change notifications."""
        statement = select(tasks.c.id, tasks.c.tenant).where(tasks.c.id.in_(list(task_ids)))
        return self._database.look(lambda connection: {str(key): owner for key, owner in connection.execute(statement)})

    def chains(self, task_ids: Collection[str]) -> Mapping[str, str]:
        """Return the chain of those of these tasks that are steps, for change notifications."""
        statement = select(chain_steps.c.task_id, chain_steps.c.chain_id)
        of_them = statement.where(chain_steps.c.task_id.in_(list(task_ids)))
        return self._database.look(lambda connection: {str(key): str(of) for key, of in connection.execute(of_them)})


def _attempts(connection: Connection, statement: Select[Any]) -> list[Attempt]:
    return [attempt for attempt, _ in unreadable.values(connection, statement, Attempt, ATTEMPT_FIELDS)]


def _newest(of_tracebacks: Select[Any]) -> Select[Any]:
    joined = of_tracebacks.join(attempts, _OF_ATTEMPT)
    return joined.order_by(attempts.c.started_at.desc(), attempts.c.number.desc())


def _with_tracebacks(connection: Connection, statement: Select[Any], newest: Select[Any]) -> list[Attempt]:
    found = _attempts(connection, statement)
    if all(each.outcome in {None, "done"} for each in found):
        return found
    rows = unreadable.rows(connection, newest.limit(MAX_TRACEBACKS))
    texts = {(row.run_id, row.attempt): row.text for row in rows}
    return [replace(each, traceback=texts.get((each.run_id, each.number))) for each in found]


def _position(event: Event | EventKey, where: EventFilter) -> list[int | str]:
    if event_list.is_of_one_task(where) and isinstance(event, Event):
        return [event.seq]
    return [to_microseconds(event.at), event.id]
