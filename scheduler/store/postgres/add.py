"""PostgreSQL: add tasks with keys, runs, labels and events by one statement; a repeated call needs a second one.

The key decides. The first insert of a key makes the task; any other insert waits for its commit, adds nothing, and
reads the task of the key. The same statement takes an expired key over.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.records import Added, NewTask
from duetime.scheduler.store.postgres import add_many, add_one, known_keys
from duetime.scheduler.store.statements import event_log
from duetime.scheduler.store.statements.idempotency import name_of
from sqlalchemy import Connection

_MAX_KEY_LOOKUPS = 3
"""Tries of an add, since a key may expire between the two statements."""


def store_new(
    connection: Connection,
    items: Sequence[NewTask],
    entries: Sequence[event_log.EventValues],
    *,
    now: datetime,
    twins: bool,
) -> dict[str, Added]:
    """Store new tasks; return the results by the ids of the items."""
    answers: dict[str, Added] = {}
    left = list(items)
    for _ in range(_MAX_KEY_LOOKUPS):
        answers |= _inserted(connection, left, entries, now=now, twins=twins)
        left = [item for item in left if item.task.id not in answers]
        if left:
            known = known_keys.known(connection, left, now)
            found = {item.task.id: known[name_of(item)] for item in left if name_of(item) in known}
            answers |= {task_id: Added(it, created=it.task.id == task_id) for task_id, it in found.items()}
            left = [item for item in left if item.task.id not in answers]
        if not left:
            return answers
    raise StoreUnavailable("Other calls used the same idempotency_key at this moment. Nothing was stored; try again.")


def _inserted(
    connection: Connection,
    items: Sequence[NewTask],
    entries: Sequence[event_log.EventValues],
    *,
    now: datetime,
    twins: bool,
) -> dict[str, Added]:
    if len(items) == 1 and add_one.is_first_run(items[0].run):
        created = next(entry for entry in entries if entry["task_id"] == items[0].task.id)
        return add_one.insert(connection, items[0], created, now=now, twins=twins)
    return add_many.insert(connection, items, entries, now=now, twins=twins)
