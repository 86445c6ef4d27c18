"""When each timer fires next: due runs, deadlines, waits for signals, series and pauses, read in one statement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duetime.scheduler.run_records import NextTimes
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.damage import is_damaged, next_time
from duetime.scheduler.store.schema.rows import NOT_PAUSED
from duetime.scheduler.store.schema.tables.policies import NEWEST_POLICY
from duetime.scheduler.store.schema.tables.pools import POOL_REVISION
from duetime.scheduler.store.schema.tables.signals import signal_waits
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.statements.ready_runs import RUNS_OF_TASKS
from duetime.scheduler.store.statements.series import pause_ends
from duetime.scheduler.store.statements.series.timers import NEXT_OVERTAKE
from duetime.scheduler.store.statements.signals import kept_waits
from duetime.scheduler.task import DeadlineType, State
from sqlalchemy import Connection, Select, false, or_, select

_WAKE = (
    select(runs.c.wake_at)
    .select_from(RUNS_OF_TASKS)
    .where(runs.c.wake_at.is_not(None), NOT_PAUSED, tasks.c.paused == false())
    .order_by(runs.c.wake_at)
    .limit(1)
)
_DROP = (
    select(runs.c.drop_at)
    .select_from(RUNS_OF_TASKS)
    .where(runs.c.drop_at.is_not(None), runs.c.ended_at.is_(None), NOT_PAUSED, tasks.c.paused == false())
    .where(or_(tasks.c.deadline_type == DeadlineType.SOFT, runs.c.state != State.RUNNING))
    .order_by(runs.c.drop_at)
    .limit(1)
)

_SETTINGS_REVISION = POOL_REVISION.scalar_subquery() + NEWEST_POLICY.scalar_subquery()
"""A number that rises with each change of a pool or of the policy."""

_TIMERS = (
    (_WAKE, runs.c.id),
    (_DROP, runs.c.id),
    (kept_waits.NEXT_LATE, signal_waits.c.waiter_id),
    (NEXT_OVERTAKE, runs.c.id),
    (pause_ends.NEXT_PAUSE_END, tasks.c.id),
)
"""Selects the time at which each timer fires next, with the column by which damaged rows are left out of it."""


def _all_times(selects: Sequence[Select[Any]]) -> Select[Any]:
    """Return the statement that reads all these times, and the revision of the settings, at once."""
    return select(*(each.scalar_subquery() for each in selects), _SETTINGS_REVISION)


_ALL_TIMES = _all_times([time for time, _ in _TIMERS])
"""The statement for a database without damaged rows, which is compiled once."""


def next_times(connection: Connection) -> NextTimes:
    """Return when the timers must look next; damaged rows that are left alone do not count."""
    times = [unreadable.without(connection, time, key) for time, key in _TIMERS]
    some_left_out = any(time is not usual for time, (usual, _) in zip(times, _TIMERS, strict=True))
    found, _ = unreadable.every(connection, _all_times(times) if some_left_out else _ALL_TIMES)
    [(wake_at, drop_at, late_at, series_at, resume_at, settings_revision)] = found
    series = None if is_damaged([series_at]) else series_at  # such a run fails when it starts; nothing overtakes it
    pause = None if is_damaged([resume_at]) else resume_at  # such a task is paused until somebody resumes it
    return NextTimes(next_time(wake_at), next_time(drop_at), settings_revision, next_time(late_at), series, pause)
