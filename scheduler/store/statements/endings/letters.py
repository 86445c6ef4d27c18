"""Dead letters of runs whose task runs again, whichever call asked for that: they are closed as replayed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from duetime.scheduler.events import EventKind
from duetime.scheduler.records import Change
from duetime.scheduler.store.schema.tables.dead_letters import dead_letters
from duetime.scheduler.task import Run, State
from duetime.scheduler.views import TaskRecord
from sqlalchemy import Connection, func, null, select, update

_replay = dead_letters.alias("replay")


def follow_change(connection: Connection, record: TaskRecord, current: Run, change: Change, now: datetime) -> None:
    """Close the letter of a failed run that a change runs again; open it again when that is taken back."""
    old, failed, beside = record.run, record.last_run, change.extra_run
    if current.id != old.id and old.state is State.FAILED:
        _close(connection, old, current, now)
    elif current.id != old.id and current.state is State.FAILED:
        _reopen(connection, [old.id])
    if beside and failed and failed.state is State.FAILED and beside.repeats == (failed.repeats or failed.id):
        _close(connection, failed, beside, now)
    if change.kind is EventKind.UNDONE and change.cancelled_beside:
        _reopen(connection, [run.id for run in change.cancelled_beside])


def _reopen(connection: Connection, replayed_as: Sequence[str]) -> None:
    values = {"closed_at": null(), "replayed_as": null(), "replay_number": null()}
    connection.execute(update(dead_letters).where(dead_letters.c.replayed_as.in_(replayed_as)).values(values))


def _close(connection: Connection, old: Run, current: Run, now: datetime) -> None:
    number = select(_replay.c.replay_number).where(_replay.c.replayed_as == old.id).scalar_subquery()
    is_open = (dead_letters.c.run_id == old.id, dead_letters.c.closed_at.is_(None))
    values = {"closed_at": now, "replayed_as": current.id, "replay_number": func.coalesce(number, 0) + 1}
    connection.execute(update(dead_letters).where(*is_open).values(values))
