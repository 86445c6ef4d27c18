"""Pauses that end by themselves: the tasks that continue at their time.

An index has the paused tasks with an end, in order of time, so that those without one cost the timer nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from duetime.scheduler.errors import Refused
from duetime.scheduler.events import DUETIME_ACTOR, EventKind
from duetime.scheduler.principal import Acting
from duetime.scheduler.records import Change, ChangeOrigin
from duetime.scheduler.remedies import PAUSE_OVER_REASON
from duetime.scheduler.rules import changes
from duetime.scheduler.rules.occurrences import skip_run
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.tables.tasks import tasks
from duetime.scheduler.store.schema.types import Instant
from duetime.scheduler.store.statements import change as changing
from duetime.scheduler.store.statements import read, repair
from duetime.scheduler.views import TaskRecord
from sqlalchemy import Connection, Select, bindparam, select

NEXT_PAUSE_END: Select[Any] = (
    select(tasks.c.paused_until).where(tasks.c.paused_until.is_not(None)).order_by(tasks.c.paused_until).limit(1)
)
_DUE: Final = (
    select(tasks.c.id, tasks.c.tenant)
    .where(tasks.c.paused_until.is_not(None), tasks.c.paused_until <= bindparam("now", type_=Instant()))
    .order_by(tasks.c.paused_until)
    .limit(bindparam("most"))
)
_DUE_IDS: Final = _DUE.with_only_columns(tasks.c.id)
_DUE_LOCKED: Final = _DUE.with_for_update(skip_locked=True)
_ITSELF: Final[Acting] = {"actor": DUETIME_ACTOR, "via": None}


def due(connection: Connection, limit: int, now: datetime) -> list[str]:
    """Return at most `limit` tasks whose pause is over, the earliest first."""
    wanted = unreadable.without(connection, _DUE_IDS, tasks.c.id)
    return list(connection.execute(wanted, {"now": now, "most": limit}).scalars())


def end_due(connection: Connection, only: Collection[str] | None, limit: int, now: datetime) -> list[str]:
    """Resume at most `limit` tasks whose pause is over, or `only` these, and return them.

    Raises where one of them cannot be read: a newer version may have written it.
    """
    wanted = unreadable.without(connection, _DUE_LOCKED, tasks.c.id, only)
    found = connection.execute(wanted, {"now": now, "most": limit}).all()
    for row in found:
        _resume(connection, row.tenant, row.id, now)
    return [row.id for row in found]


def _resume(connection: Connection, tenant: str, task_id: str, now: datetime) -> None:
    record = read.locked_record(connection, tenant, task_id)
    if record.damage:
        record = repair.mended(connection, record, EventKind.RESUMED, _ITSELF, now)
    change = _decided(record, now)
    kind = change.kind or EventKind.RESUMED
    changing.apply(connection, record, change, ChangeOrigin(DUETIME_ACTOR, kind, PAUSE_OVER_REASON), now)


def _decided(record: TaskRecord, now: datetime) -> Change:
    """Resume a task; one that has ended, or that an older version resumed, only loses its end."""
    task, run = record.task, record.run
    if not task.paused or task.paused_until is None or run.state in TERMINAL:
        return Change(changes.without_pause(task), run, kind=EventKind.RESUMED)
    try:
        return changes.end_pause(record, task.paused_until)
    except Refused:  # every occurrence has passed, and nobody is there to be told so
        if record.side_runs:  # these would be left without a current run: the last occurrence runs late, and then they
            return Change(changes.without_pause(task), replace(run, wake_at=now), kind=EventKind.RESUMED)
        return Change(changes.without_pause(task), skip_run(run, now), kind=EventKind.SKIPPED)
