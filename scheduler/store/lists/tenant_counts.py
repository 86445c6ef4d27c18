"""Counts the rows of a tenant up to its quotas, in the transaction that would add to them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final, NamedTuple, cast
from zlib import crc32

from duetime.scheduler.events import EventKind
from duetime.scheduler.records import Change, IdempotencyKey
from duetime.scheduler.rules.sanitize import json_bytes
from duetime.scheduler.store.database.change_limits import ChangeLimits
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.schema.rows import IS_CURRENT
from duetime.scheduler.store.schema.tables.chains import dependencies
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.statements import idempotency
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskRecord
from sqlalchemy import Connection, bindparam, func, literal_column, select

_FIRST_LOCK_ID = 0x71756F74 << 24  # "quot", and 24 bits of the tenant's name: tenants rarely wait for each other

_CREATED_BEFORE_LAST = (
    select(tasks.c.created_at)
    .where(tasks.c.tenant == bindparam("tenant"))
    .order_by(tasks.c.created_at.desc())
    .limit(1)
    .offset(bindparam("behind"))
)
_IS_OPEN = IS_CURRENT & literal_column("runs.ended_at IS NULL")
_OPEN_BEHIND = (
    select(runs.c.task_id)
    .where(runs.c.tenant == bindparam("tenant"), _IS_OPEN)
    .order_by(runs.c.listed_at)
    .limit(1)
    .offset(bindparam("behind"))
)
_NEXT_DUE = (
    select(runs.c.listed_at)
    .join_from(runs, tasks, tasks.c.id == runs.c.task_id)
    .where(runs.c.tenant == bindparam("tenant"), _IS_OPEN, tasks.c.repeat.is_(None))
    .where(runs.c.state != State.WAITING, ~runs.c.paused)
    .order_by(runs.c.listed_at)
    .limit(1)
)
"""Tasks that repeat stay open after a run, and those that are paused or wait for others have no time of their own."""

_BELOW = (
    select(dependencies.c.task_id)
    .where(dependencies.c.upstream_id == bindparam("of_task"), dependencies.c.ended_run.is_not(None))
    .cte("below", recursive=True)
)
_ENDED_WITH = _BELOW.union(
    select(dependencies.c.task_id)
    .join(_BELOW, _BELOW.c.task_id == dependencies.c.upstream_id)
    .where(dependencies.c.ended_run.is_not(None))
)
"""Tasks that ended with a failed one, all the way: they are open again once it runs again."""


class TenantCounts:
    """The tasks of one tenant, as a connection sees them at an instant."""

    def __init__(self, connection: Connection, tenant: str, now: datetime) -> None:
        self._connection = connection
        self._tenant = tenant
        self._now = now

    def is_made(self, key: IdempotencyKey) -> bool:
        """Whether the key names a task already; raises `IdempotencyConflict` when that has other content."""
        return idempotency.stands_for(self._connection, self._tenant, key, self._now) is not None

    def created_before_last(self, count: int) -> datetime | None:
        """Return when the newest task but `count` was created, None when there are no more."""
        parameters = {"tenant": self._tenant, "behind": count}
        return cast("datetime | None", self._connection.execute(_CREATED_BEFORE_LAST, parameters).scalar())

    def has_open(self, count: int) -> bool:
        """Whether there are at least so many open tasks."""
        parameters = {"tenant": self._tenant, "behind": count - 1}
        return self._connection.execute(_OPEN_BEHIND, parameters).first() is not None

    def payload_bytes(self) -> int:
        """Return how many bytes the payloads of open tasks have together; reads each of them."""
        size = dialect_of(self._connection).json_bytes(tasks.c.payload)
        statement = select(func.coalesce(func.sum(size), 0)).join_from(runs, tasks, tasks.c.id == runs.c.task_id)
        found = self._connection.execute(statement.where(runs.c.tenant == self._tenant, _IS_OPEN))
        return int(found.scalar_one())

    def next_due(self) -> datetime | None:
        """Return when the open task that ends first is due; None when no open task ends by itself at a known time."""
        found = self._connection.execute(_NEXT_DUE, {"tenant": self._tenant})
        return cast("datetime | None", found.scalar())


ChangeAdmission = Callable[[TenantCounts, int, int, datetime, bool], None]
"""Raises `Refused` unless the tenant may have so many more open tasks, and bytes of payload, at a time.

The last argument says whether it is a dry run.
"""


class Growth(NamedTuple):
    """The open tasks, and bytes of payload, that changes add to those of a tenant."""

    open_tasks: int = 0
    payload_bytes: int = 0


NO_GROWTH: Final = Growth()
Admission = Callable[[TenantCounts], None]
"""Raises `Refused` unless the tenant may store what a call requests."""


def admit(connection: Connection, tenant: str, now: datetime, admission: Admission) -> None:
    """Check the quotas of a tenant; no other call of it passes until this transaction has ended."""
    dialect_of(connection).wait_for_lock(connection, _FIRST_LOCK_ID | crc32(tenant.encode()) & 0xFFFFFF)
    admission(TenantCounts(connection, tenant, now))


def admit_change(
    connection: Connection,
    record: TaskRecord,
    change: Change,
    kind: EventKind,
    now: datetime,
    *,
    dry_run: bool = False,
    earlier: Growth = NO_GROWTH,
) -> Growth:
    """Check the quotas of a tenant for a change that opens a task again or makes a payload larger; an undo always may.

    All that had ended with the task opens again too. Returns the growth by this change and `earlier` ones.
    Changes at the same time may pass together: this holds the lock of a task, so it must not wait for that of `admit`.
    """
    check = ChangeLimits.of(connection).check
    if check is None or (change.kind or kind) in _UNDO_KINDS:
        return earlier
    was_open, is_open = record.run.ended_at is None, change.coming.ended_at is None
    before = json_bytes(record.task.payload) if was_open else 0
    added = json_bytes(change.task.payload) - before if is_open else 0
    opens = is_open and not was_open
    if not opens and added <= 0:
        return earlier
    more, size = _ended_with(connection, record.task.id) if opens else (0, 0)
    grown = Growth(earlier.open_tasks + int(opens) + more, earlier.payload_bytes + max(added, 0) + size)
    check(TenantCounts(connection, record.task.tenant, now), *grown, now, dry_run)
    return grown


def _ended_with(connection: Connection, task_id: str) -> tuple[int, int]:
    """Return how many tasks ended with a failed one, and the bytes of their payloads."""
    size = func.sum(dialect_of(connection).json_bytes(tasks.c.payload))
    statement = select(func.count(), func.coalesce(size, 0)).join_from(
        _ENDED_WITH, tasks, tasks.c.id == _ENDED_WITH.c.task_id
    )
    count, found = connection.execute(statement, {"of_task": task_id}).one()
    return int(count), int(found)


_UNDO_KINDS = frozenset({EventKind.UNDONE, EventKind.CANCEL_UNDONE})
