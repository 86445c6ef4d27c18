"""Dead letters of runs whose task runs again, whichever call asked for that: they are closed as replayed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from duetime.scheduler.events import EventKind
from duetime.scheduler.records import Change
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.rows import RUN_FIELDS
from duetime.scheduler.store.schema.tables.dead_letters import dead_letters
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.task import Run, State
from duetime.scheduler.views import TaskRecord
from sqlalchemy import BindParameter, Connection, bindparam, func, null, or_, select, update

_replay = dead_letters.alias("replay")
_failed = runs.alias("failed")
_IDS: BindParameter[Sequence[str]] = bindparam("run_ids", expanding=True)
_RUN_AGAIN = (
    select(runs.c.id)
    .join_from(runs, _failed, runs.c.repeats == func.coalesce(_failed.c.repeats, _failed.c.id))
    .where(_failed.c.id.in_(_IDS), runs.c.id.not_in(_IDS), runs.c.state != State.CANCELLED)
    .where(or_(runs.c.ended_at.is_(None), runs.c.ended_at > bindparam("since", type_=runs.c.ended_at.type)))
    .limit(1)
)
_FAILED_RUNS = (
    select(*RUN_FIELDS)
    .join_from(dead_letters, runs, runs.c.id == dead_letters.c.run_id)
    .where(dead_letters.c.tenant == bindparam("tenant"), dead_letters.c.closed_at.is_(None))
    .where(dead_letters.c.task_id.in_(bindparam("task_ids", expanding=True)))
    .order_by(dead_letters.c.at, dead_letters.c.run_id)
)
_DISCARDED = (dead_letters.c.run_id.in_(_IDS), dead_letters.c.replayed_as.is_(None))


def failed_runs(connection: Connection, tenant: str, task_ids: Sequence[str]) -> dict[str, Run]:
    """Return the runs of the newest open letters of these tasks, by task."""
    given = {"tenant": tenant, "task_ids": list(task_ids)}
    return {run.task_id: run for run, _ in unreadable.values(connection, _FAILED_RUNS, Run, RUN_FIELDS, given)}


def follow_change(connection: Connection, record: TaskRecord, current: Run, change: Change, now: datetime) -> None:
    """Close the dead letter of a failed run that a change runs again, and open it when that change is undone."""
    old, failed, side_run = record.run, record.failed_run or record.last_run, change.extra_run
    if current.id != old.id and old.state is State.FAILED:
        _close(connection, old, current, now)
    elif current.id != old.id and current.state is State.FAILED:
        _reopen(connection, [old.id])
    if side_run and failed and failed.state is State.FAILED and side_run.repeats == (failed.repeats or failed.id):
        _close(connection, failed, side_run, now)
    if change.kind is EventKind.UNDONE and change.cancelled_side_runs:
        _reopen(connection, [run.id for run in change.cancelled_side_runs])


def open_again(connection: Connection, task_id: str, run_ids: Sequence[str], since: datetime) -> str | None:
    """Open letters of a task that were discarded at `since`; return why not, if it was run again after that."""
    given = {"run_ids": list(run_ids)}
    if connection.execute(_RUN_AGAIN, {**given, "since": since}).first() is not None:
        return f"{task_id} was run again since, so its dead letter stays closed."
    connection.execute(update(dead_letters).where(*_DISCARDED).values(closed_at=null()), given)
    return None


def _reopen(connection: Connection, replayed_as: Sequence[str]) -> None:
    values = {"closed_at": null(), "replayed_as": null(), "replay_number": null()}
    connection.execute(update(dead_letters).where(dead_letters.c.replayed_as.in_(replayed_as)).values(values))


def _close(connection: Connection, old: Run, current: Run, now: datetime) -> None:
    number = select(_replay.c.replay_number).where(_replay.c.replayed_as == old.id).scalar_subquery()
    is_open = (dead_letters.c.run_id == old.id, dead_letters.c.closed_at.is_(None))
    values = {"closed_at": now, "replayed_as": current.id, "replay_number": func.coalesce(number, 0) + 1}
    connection.execute(update(dead_letters).where(*is_open).values(values))
