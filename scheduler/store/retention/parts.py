"""Rows of other tables that mean nothing without a row, and go with it, children first.

The labels of a task are apart: they are found by its own row, and are written there too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from duetime.scheduler.history.retention import RetentionKind
from duetime.scheduler.store.retention.row_conditions import TABLES, RowCondition
from duetime.scheduler.store.retention.selection import RowKey
from duetime.scheduler.store.schema.tables.approvals import approvals
from duetime.scheduler.store.schema.tables.chains import chain_steps, chains, dependencies, spawned_tasks
from duetime.scheduler.store.schema.tables.dead_letters import dead_letters
from duetime.scheduler.store.schema.tables.deliveries import deliveries, inbox
from duetime.scheduler.store.schema.tables.events import events
from duetime.scheduler.store.schema.tables.follow_ups import follow_ups
from duetime.scheduler.store.schema.tables.logs import run_logs
from duetime.scheduler.store.schema.tables.pools import usage
from duetime.scheduler.store.schema.tables.signals import fire_addresses, signal_waits
from duetime.scheduler.store.schema.tables.tasks import attempts, runs, tracebacks
from duetime.scheduler.store.statements.signals.wait_rows import further
from sqlalchemy import ColumnElement, Table, exists, select, tuple_

RowsOfTable = tuple[Table, RowCondition]

_OF_RUNS = (approvals, run_logs, tracebacks, attempts, usage, dead_letters, deliveries, inbox)
"""Tables whose rows belong to a run, in the order of their deletion."""


def parts(kind: RetentionKind, keys: Sequence[RowKey]) -> list[RowsOfTable]:
    """Return the rows that go with these, and last these themselves."""
    children = _CHILDREN[kind](keys) if kind in _CHILDREN else []
    return [*children, (TABLES[kind], itself(kind, keys))]


def itself(kind: RetentionKind, keys: Sequence[RowKey]) -> RowCondition:
    """Return the condition that finds the rows of these keys."""
    return one_of(list(TABLES[kind].primary_key), keys)


def one_of(columns: Sequence[ColumnElement[Any]], keys: Sequence[RowKey]) -> RowCondition:
    """Return the condition that these columns together have one of the values.

    SQLite has no index for a list of several columns, and would read the whole table: the first column finds the rows.
    """
    first = columns[0].in_(list(dict.fromkeys(key[0] for key in keys)))
    return first if len(columns) == 1 else first & tuple_(*columns).in_(list(keys))


def _of_tasks(keys: Sequence[RowKey]) -> list[RowsOfTable]:
    ids = [task_id for (task_id,) in keys]
    theirs = select(runs.c.id).where(runs.c.task_id.in_(ids))
    return [
        *((table, table.c.run_id.in_(theirs)) for table in _OF_RUNS),
        (events, events.c.task_id.in_(ids)),
        (dependencies, dependencies.c.task_id.in_(ids)),
        (chains, _chains_of(ids)),
        (chain_steps, chain_steps.c.task_id.in_(ids)),
        (spawned_tasks, spawned_tasks.c.task_id.in_(ids) | spawned_tasks.c.run_id.in_(theirs)),
        (signal_waits, signal_waits.c.task_id.in_(ids)),
        (follow_ups, follow_ups.c.task_id.in_(ids)),
        (fire_addresses, fire_addresses.c.task_id.in_(ids)),
        (runs, runs.c.task_id.in_(ids)),
    ]


def _chains_of(task_ids: Sequence[str]) -> RowCondition:
    """Return the chains of which no step is left but those of these tasks."""
    named, left = select(chain_steps.c.chain_id).where(chain_steps.c.task_id.in_(task_ids)), chain_steps.alias("left")
    return chains.c.id.in_(named) & ~exists().where(left.c.chain_id == chains.c.id, left.c.task_id.not_in(task_ids))


def _of_runs(keys: Sequence[RowKey]) -> list[RowsOfTable]:
    """Return what goes with runs; their events stay until they are old themselves, for they tell who did what."""
    ids = [run_id for (run_id,) in keys]
    waits = signal_waits.c.waiter_id.in_([*ids, *further(ids)])
    spawned = (spawned_tasks, spawned_tasks.c.run_id.in_(ids))
    return [*((table, table.c.run_id.in_(ids)) for table in _OF_RUNS), spawned, (signal_waits, waits)]


def _of_attempts(keys: Sequence[RowKey]) -> list[RowsOfTable]:
    of_attempts = (run_logs, tracebacks)
    return [(table, one_of((table.c.run_id, table.c.attempt), keys)) for table in of_attempts]


def _of_messages(keys: Sequence[RowKey]) -> list[RowsOfTable]:
    theirs = select(inbox.c.run_id).where(inbox.c.id.in_([message_id for (message_id,) in keys]))
    return [(deliveries, deliveries.c.run_id.in_(theirs))]


_CHILDREN: dict[RetentionKind, Callable[[Sequence[RowKey]], list[RowsOfTable]]] = {
    RetentionKind.TASKS: _of_tasks,
    RetentionKind.RUNS: _of_runs,
    RetentionKind.ATTEMPTS: _of_attempts,
    RetentionKind.INBOX: _of_messages,
}
