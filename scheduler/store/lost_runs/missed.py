"""Leaves out due runs that were missed for too long, that a later one stands for, or that are asked for first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from duetime.scheduler.events import EventKind
from duetime.scheduler.rules.series.catch_up import catches_up, caught_up
from duetime.scheduler.store.statements import change as changing
from duetime.scheduler.store.statements import event_log, read
from duetime.scheduler.store.statements.approvals import occurrences
from duetime.scheduler.task import State
from sqlalchemy import Connection, Row

ON_TIME = timedelta(seconds=30)
"""A run that is due for less than this was not missed: its process looked a little later."""

REASON = "missed: nothing ran at its time"


def without(connection: Connection, found: Sequence[Row[Any]], now: datetime, *, asked: list[str]) -> list[Row[Any]]:
    """Return the rows of runs that may run. Missed ones are skipped, and the occurrence that stands for them follows.

    Runs that are asked for first wait now; `asked` gets their tasks.
    """
    left = [row for row in found if not _is_missed(row, now) or not _left_out(connection, row, now)]
    return occurrences.without_unasked(connection, left, now, asked)


def _is_missed(row: Row[Any], now: datetime) -> bool:
    late = row.state is State.SCHEDULED and row.attempt == 0 and now - row.wake_at > ON_TIME
    return late and catches_up(row.repeat_policy)


def _left_out(connection: Connection, row: Row[Any], now: datetime) -> bool:
    record = read.record(connection, row.tenant, row.task_id, locking=True)
    change = caught_up(record, now) if record.run.id == row.id else None
    if change is None:
        return False
    changing.apply(connection, record, change, actor=event_log.ITSELF, kind=EventKind.SKIPPED, reason=REASON, now=now)
    return True
