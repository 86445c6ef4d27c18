"""Writes events, and reads them for a change; no other module numbers them.

`seq` is computed inside the INSERT. On SQLite the write lock makes that safe; on PostgreSQL every writer has locked the
task's row before.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from duetime.scheduler.errors import StaleRevision
from duetime.scheduler.events import Event, EventKind
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.schema.rows import EVENT_FIELDS, values_of
from duetime.scheduler.store.schema.tables.events import events
from duetime.scheduler.store.sql.batch import Batch
from duetime.scheduler.task import Json, State, Task
from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    Select,
    bindparam,
    func,
    insert,
    literal_column,
    select,
    text,
    tuple_,
)

EventValues = dict[str, Any]


TASK_DEADLINE, FOLLOWED, LINKS = "task_deadline", "followed", "links"
"""Parts of an event for an undo alone. They are the deadline of the task in addition to that of its run, the run before
this one, and what the task waited for.
"""

TIMES_MEMBER = "times"
"""The part of `LINKS` that has the times of the run."""

_MAX_CHANGES_NAMED = 5
_TIMES = frozenset({"wake_at", "first_ready_at", "started_at", "ended_at", "drop_at"})
_OURS = frozenset({"generation", "anchor", "occurrence", "progress", TASK_DEADLINE, FOLLOWED, LINKS}) | _TIMES
"""Fields of a change that the history keeps and that a stale caller does not need."""


_A_NUMBER: ColumnElement[bool] = literal_column("events.seq < 9000000000000000000")
"""Damaged numbers on SQLite are not: text is after every number."""

_LAST = select(func.coalesce(func.max(events.c.seq), 0)).where(events.c.task_id == bindparam("of_task"), _A_NUMBER)
_VALUES = (
    "tenant",
    "task_id",
    "run_id",
    "at",
    "kind",
    "actor",
    "reason",
    "from_state",
    "to_state",
    "attempt",
    "before",
    "after",
    "revision",
    "via",
)
Times = Mapping[str, datetime]
"""When something was, by task."""

_WANTED = (EventKind.RUN_NOW, EventKind.RESCHEDULED, EventKind.SNOOZED)
_BEGINNINGS = (
    select(events.c.task_id, events.c.kind, events.c.at)
    .where(events.c.task_id.in_(bindparam("task_ids", expanding=True)), events.c.from_state.is_(None))
    .where(events.c.to_state.is_not(None), events.c.kind != EventKind.CANCEL_UNDONE)
    .where(events.c.kind.not_in(_WANTED) | events.c.before.is_not(None))
    .order_by(events.c.task_id, events.c.seq)
)
"""When runs began, without those that somebody wanted next to the current one: these replace no run before them."""

_NTH = bindparam("nth", type_=Integer())
_APPEND = Batch(insert(events).values(seq=_LAST.scalar_subquery() + _NTH), _VALUES)


def entry(
    tenant: str,
    task_id: str,
    run_id: str | None,
    at: datetime,
    *,
    kind: EventKind,
    actor: str,
    reason: str | None = None,
    move: tuple[State | None, State] | None = None,
    attempt: int | None = None,
    before: Mapping[str, Json] | None = None,
    after: Mapping[str, Json] | None = None,
    revision: int | None = None,
    via: str | None = None,
) -> EventValues:
    """Return the row of an event; `move` is the run's change of state, if any."""
    from_state, to_state = move or (None, None)
    return {
        "of_task": task_id,
        "nth": 1,
        "tenant": tenant,
        "task_id": task_id,
        "run_id": run_id,
        "at": at,
        "kind": kind,
        "actor": actor,
        "reason": reason,
        "from_state": from_state,
        "to_state": to_state,
        "attempt": attempt,
        "before": before,
        "after": after,
        "revision": revision,
        "via": via,
    }


def begun_again_at(connection: Connection, task_ids: Sequence[str]) -> tuple[Times, Times]:
    """Return when somebody wanted tasks again whose newest run is for that reason, and when generations began."""
    found = unreadable.rows(connection, _BEGINNINGS, {"task_ids": list(task_ids)}) if task_ids else []
    newest = {row.task_id: row for row in found}
    wanted = {task_id: row.at for task_id, row in newest.items() if row.kind in _WANTED}
    return wanted, {row.task_id: row.at for row in found if row.kind is EventKind.NEXT_OCCURRENCE}


def append(connection: Connection, entries: Sequence[EventValues]) -> None:
    """Store the events in order, each with the next number of its task."""
    batch, rows = appending(connection, entries)
    batch.run(connection, rows)


def appending(connection: Connection, entries: Sequence[EventValues]) -> tuple[Batch, Sequence[EventValues]]:
    """Return the batch that stores the events, and its rows: for `together`, at most once per step of a transaction."""
    return _APPEND, numbered(entries) if dialect_of(connection).writes_rows_at_once else entries


def numbered(entries: Sequence[EventValues]) -> list[EventValues]:
    """Count the entries of each task within a batch, because all rows of a statement see the same last number."""
    counts: Counter[str] = Counter()
    numbered = []
    for each in entries:
        counts[each["task_id"]] += 1
        numbered.append({**each, "nth": counts[each["task_id"]]})
    return numbered


OLDEST_OPEN = """(
    SELECT min(open.tx::text::bigint)
    FROM (
        SELECT pg_snapshot_xip(pg_current_snapshot()) AS tx
        UNION ALL SELECT pg_snapshot_xmax(pg_current_snapshot())
    ) AS open
    WHERE NOT EXISTS (
        SELECT FROM pg_stat_activity AS session
        WHERE session.backend_xid = open.tx::xid AND session.datname <> current_database()
    ))"""
"""The oldest transaction that may still write an event: the oldest open one in the snapshot, else the next to begin.

A transaction without a session has just ended, and counts as open. `pg_stat_activity` shows database and transaction of
a session to every role.
"""


def latest(connection: Connection) -> int:
    return connection.execute(_closed(connection, select(events.c.id)).limit(1)).scalar() or 0


def _closed(connection: Connection, statement: Select[Any]) -> Select[Any]:
    """Return the statement limited to events of finished transactions, newest first."""
    if dialect_of(connection).ids_follow_commits:
        return statement.order_by(events.c.id.desc())
    return statement.where(_finished()).order_by(events.c.tx.desc(), events.c.id.desc())


def _finished() -> Any:
    return events.c.tx < text(OLDEST_OPEN)


def since(connection: Connection, event_id: int, limit: int) -> list[Event]:
    statement = select(*EVENT_FIELDS)
    if dialect_of(connection).ids_follow_commits:
        statement = statement.where(events.c.id > event_id).order_by(events.c.id)
    else:
        before = select(events.c.tx).where(events.c.id <= event_id, events.c.tx.is_not(None))  # it may be deleted
        tx = before.order_by(events.c.id.desc()).limit(1).scalar_subquery()
        statement = statement.where(
            _finished(),
            tuple_(events.c.tx, events.c.id)
            > tuple_(func.coalesce(tx, -sys.maxsize), event_id),  # restored ones are below 0
        )
        statement = statement.order_by(events.c.tx, events.c.id)
    return events_of(connection, statement.limit(limit))


def check_revision(connection: Connection, task: Task, revision: int | None) -> None:
    """Raise `StaleRevision`, with the later events, when the caller has seen another revision."""
    if revision is None or revision == task.revision:
        return
    later = select(*EVENT_FIELDS).where(events.c.task_id == task.id, events.c.revision > revision)
    since = events_of(connection, later.order_by(events.c.seq).limit(_MAX_CHANGES_NAMED))
    entries = [_summary(event) for event in since]
    raise StaleRevision(task.id, revision, task.revision, entries, events=since, zone=task.timezone)


def _summary(event: Event) -> str:
    before, after = event.before or {}, event.after or {}
    seen = {name: value for name, value in after.items() if name not in _OURS}
    changes = ", ".join(f"{name} {before.get(name)} -> {value}"[:100] for name, value in seen.items())
    return f"{event.kind} by {event.actor}" + (f" ({changes})" if changes else "")


def events_of(connection: Connection, statement: Select[Any]) -> list[Event]:
    """Read events; what is damaged in one is said in its reason."""
    rows, damaged = unreadable.every(connection, statement)
    if not damaged:
        return [Event(*row) for row in rows]
    return [replace(event, reason=_reason(event, why)) for event, why in values_of(Event, EVENT_FIELDS, rows)]


def _reason(event: Event, damage: Sequence[str]) -> str | None:
    return "; ".join((*([event.reason] if event.reason else []), *(f"damaged: {each}" for each in damage))) or None
