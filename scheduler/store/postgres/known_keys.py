"""PostgreSQL: read the tasks of idempotency keys, each with its runs and deliveries, by one statement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

from duetime.scheduler.records import NewTask
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.rows import DELIVERY_FIELDS, IS_CURRENT, RUN_FIELDS, TASK_FIELDS, task_and_run
from duetime.scheduler.store.schema.tables.deliveries import deliveries
from duetime.scheduler.store.schema.tables.events import keys as key_table
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.statements import idempotency, read
from duetime.scheduler.store.statements.idempotency import Name, name_of
from duetime.scheduler.task import Delivery, Run
from duetime.scheduler.views import TaskRecord
from sqlalchemy import Connection, Row, Text, bindparam, func, literal_column, select, true, union
from sqlalchemy.dialects.postgresql import ARRAY

_of_task = runs.c.task_id == tasks.c.id
_shown = union(
    select(runs.c.id).where(_of_task, IS_CURRENT).correlate(tasks),
    select(runs.c.id).where(_of_task, literal_column("NOT runs.current AND runs.ended_at IS NULL")).correlate(tasks),
    select(read.LATEST_ENDED.correlate(tasks).subquery("latest").c.id),
).lateral("shown")
_names = func.unnest(bindparam("tenants", type_=ARRAY(Text)), bindparam("names", type_=ARRAY(Text)))
_asked = _names.table_valued("tenant", "key").render_derived(name="asked")
_KEY = (key_table.c.tenant, key_table.c.key, key_table.c.fingerprint, key_table.c.expires_at, key_table.c.derived)
_KNOWN_TASKS = (
    select(*TASK_FIELDS, *RUN_FIELDS, *DELIVERY_FIELDS, *(column.label(f"key_{column.name}") for column in _KEY))
    .select_from(_asked)
    .join(key_table, (key_table.c.tenant == _asked.c.tenant) & (key_table.c.key == _asked.c.key))
    .join(tasks, tasks.c.id == key_table.c.task_id)
    .join(_shown, true())
    .join(runs, runs.c.id == _shown.c.id)
    .outerjoin(deliveries, (deliveries.c.run_id == runs.c.id) & runs.c.ended_at.is_not(None))
    .order_by(key_table.c.tenant, key_table.c.key, runs.c.id, deliveries.c.id)
)


def known(connection: Connection, items: Sequence[NewTask], now: datetime) -> dict[Name, TaskRecord]:
    """Return the tasks of the items' keys, without expired keys.

    Raises `IdempotencyConflict` when a key that holds was used for other content.
    """
    wanted = {name_of(item): item.key for item in items if item.key}
    parameters = {"tenants": [tenant for tenant, _ in wanted], "names": [key for _, key in wanted]}
    found: dict[Name, TaskRecord] = {}
    rows, damaged = unreadable.every(connection, _KNOWN_TASKS, parameters)
    if damaged:
        return _one_by_one(connection, items, now)
    for name, of_key in groupby(rows, lambda row: (row.key_tenant, row.key_key)):
        key_rows = list(of_key)
        first = key_rows[0]
        record = _record(key_rows)
        if not idempotency.holds(record.run, derived=first.key_derived, expires_at=first.key_expires_at, now=now):
            continue
        may_be_over = first.key_derived and first.key_expires_at and record.task.revision > 1
        if not (may_be_over and idempotency.is_changed_by_maker(connection, record.task.id)):
            idempotency.check_same(wanted[name], record.task.id, first.key_fingerprint)
            found[name] = record
    return found


def _one_by_one(connection: Connection, items: Sequence[NewTask], now: datetime) -> dict[Name, TaskRecord]:
    """Return the same in several statements, each of which reads damaged rows too."""
    found: dict[Name, TaskRecord] = {}
    for item in items:
        if item.key:
            task_id = idempotency.stands_for(connection, item.task.tenant, item.key, now)
            found |= {name_of(item): each for each in read.records(connection, [task_id] if task_id else []).values()}
    return found


def _record(rows: Sequence[Row[Any]]) -> TaskRecord:
    """Assemble the record that `read.with_past` reads in several statements."""
    pairs = [task_and_run(row) for row in rows]
    task = pairs[0][0]
    its_runs = {run.id: run for _, run in pairs}
    [current] = [run for run in its_runs.values() if run.current]
    ended = [run for run in its_runs.values() if run.ended_at and not run.current]
    last = current if read.ran(current) else next(iter(ended), None)
    sent = _deliveries(rows, last) if last else ()
    return TaskRecord(task, current, last, sent, _side_runs(its_runs.values()))


def _deliveries(rows: Sequence[Row[Any]], of: Run) -> tuple[Delivery, ...]:
    begin = len(TASK_FIELDS) + len(RUN_FIELDS)
    found = [Delivery(*row[begin : begin + len(DELIVERY_FIELDS)]) for row in rows if row[begin] is not None]
    return tuple(delivery for delivery in found if delivery.run_id == of.id)


def _side_runs(its_runs: Iterable[Run]) -> tuple[Run, ...]:
    return tuple(run for run in its_runs if not run.current and not run.ended_at)
