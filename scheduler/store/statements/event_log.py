"""Writing events: the only place that numbers them.

`seq` is taken inside the INSERT. On SQLite the write lock makes that safe; on PostgreSQL every writer has locked the
task's row before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from duetime.scheduler.events import EventKind
from duetime.scheduler.store.schema.tables import events
from duetime.scheduler.store.sql.batch import Batch
from duetime.scheduler.task import Json, State
from sqlalchemy import Connection, Integer, bindparam, func, insert, select

Entry = dict[str, Any]

ITSELF = "duetime"
"""The actor of what happens by itself."""

_LAST = select(func.coalesce(func.max(events.c.seq), 0)).where(events.c.task_id == bindparam("of_task"))
VALUES = (
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
)
_NTH = bindparam("nth", type_=Integer())
_APPEND = Batch(insert(events).values(seq=_LAST.scalar_subquery() + _NTH), VALUES)


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
) -> Entry:
    """Return an event's row; `move` is the run's change of state, if this is one."""
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
    }


def append(connection: Connection, entries: Sequence[Entry]) -> None:
    """Store the events in their order, each with the next number of its task."""
    batch, rows = appending(connection, entries)
    batch.run(connection, rows)


def appending(connection: Connection, entries: Sequence[Entry]) -> tuple[Batch, Sequence[Entry]]:
    """Return the batch that stores the events, and its rows: for `together`, and only once in a transaction's step."""
    return _APPEND, numbered(entries) if connection.dialect.name == "postgresql" else entries


def numbered(entries: Sequence[Entry]) -> list[Entry]:
    """Count the entries of each task: all of a batch see the same last number where they are written together."""
    counts: Counter[str] = Counter()
    numbered = []
    for each in entries:
        counts[each["task_id"]] += 1
        numbered.append({**each, "nth": counts[each["task_id"]]})
    return numbered
