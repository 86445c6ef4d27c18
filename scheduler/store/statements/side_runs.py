"""Side runs (run now, a recurring task's snooze) follow a cancel or a pause of their task.

When the current run ends without a successor, the earliest of them becomes current, because lists and cancels act on
the current run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from duetime.scheduler.events import EventKind
from duetime.scheduler.ids import new_id
from duetime.scheduler.records import ChangeOrigin
from duetime.scheduler.rules.series.overtake import ends_series
from duetime.scheduler.rules.states import cancelled
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.rows import IS_CURRENT, RUN_FIELDS, listed_at
from duetime.scheduler.store.schema.stored_change import StoredChange
from duetime.scheduler.store.schema.tables.chains import chain_steps
from duetime.scheduler.store.schema.tables.events import events
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.store.schema.types import Instant
from duetime.scheduler.store.sql.batch import Batch
from duetime.scheduler.store.sql.locks import exactly
from duetime.scheduler.store.statements import event_log
from duetime.scheduler.task import Run, State, Task
from sqlalchemy import Connection, bindparam, exists, false, literal_column, select, true, update

_SIDE_RUNS = (
    select(*RUN_FIELDS)
    .where(runs.c.task_id == bindparam("of_task"), runs.c.current == false(), runs.c.ended_at.is_(None))
    .order_by(runs.c.id)
)

_CANCELS = (
    events.c.tenant == bindparam("tenant"),
    events.c.task_id == bindparam("of_task"),
    events.c.kind == EventKind.CANCELLED,
    events.c.at >= bindparam("since", type_=Instant()),
)
_THIS_CANCEL = select(events.c.revision).where(*_CANCELS, events.c.run_id == bindparam("itself")).limit(1)
_HAD_WAITED = select(events.c.seq).where(*_CANCELS, events.c.run_id == runs.c.id, events.c.from_state == State.WAITING)
_CANCELLED_WITH = (
    select(*RUN_FIELDS, _HAD_WAITED.correlate(runs).exists().label("had_waited"))
    .where(runs.c.id.in_(select(events.c.run_id).where(*_CANCELS, events.c.revision == _THIS_CANCEL.scalar_subquery())))
    .where(runs.c.current == false(), runs.c.id != bindparam("itself"))
    .where((runs.c.state == State.CANCELLED).is_(true()), runs.c.started_at.is_(None))
    .order_by(runs.c.id)
)
"""Runs cancelled by the same change as the current one: their events have the same revision."""


_heir = runs.alias("heir")
_HEIRS = (
    select(runs.c.id, runs.c.number, runs.c.scheduled_for, runs.c.slot, _heir.c.id.label("heir_id"))
    .add_columns(_heir.c.scheduled_for.label("heir_for"))
    .select_from(runs.join(_heir, _heir.c.task_id == runs.c.task_id))
    .where(runs.c.id.in_(bindparam("run_ids", expanding=True)), IS_CURRENT)
    .where(literal_column("NOT heir.current AND heir.ended_at IS NULL"))
    .where(
        ~exists().where(chain_steps.c.task_id == runs.c.task_id).correlate(runs)
    )  # replays: the next generation follows on its own
)
"""Without an order, for which SQLite would read the whole history of the task."""

NOT_CURRENT = Batch(update(runs).where(runs.c.id == bindparam("run_id")).values(current=false()))
_SUCCEED = Batch(
    update(runs)
    .where(runs.c.id == bindparam("heir"))
    .values(current=true(), number=bindparam("of_number"), slot=bindparam("passed"))
)


class RunMove(NamedTuple):
    """A run before and after it moves to another state, or that takes its place."""

    old: Run
    new: Run


def succeed(connection: Connection, ending: Sequence[str]) -> None:
    """Make the earliest side run current when the current one ends without a successor; it also inherits the slot.

    A run that ends in the same batch is no successor.
    """
    if not ending:
        return
    heirs = unreadable.rows(connection, _HEIRS, {"run_ids": ending})
    latest_first = sorted(heirs, key=lambda row: (row.heir_for, row.heir_id), reverse=True)
    found = {row.id: row for row in latest_first if row.heir_id not in ending}  # the earliest one stays
    NOT_CURRENT.run(connection, [{"run_id": run_id} for run_id in found])
    passed = {row.id: max(row.scheduled_for, row.slot or row.scheduled_for) for row in found.values()}
    places = [{"heir": row.heir_id, "of_number": row.number + 1, "passed": passed[row.id]} for row in found.values()]
    _SUCCEED.run(connection, places)


def follow(connection: Connection, stored: StoredChange) -> list[RunMove]:
    """Move the side runs as the change of the task and its current run requires; return those that moved."""
    task = stored.task
    if ends_series(stored.run) and not ends_series(stored.old_run):
        step = _cancelled
    elif task.paused and not stored.old_task.paused:
        step = _held
    else:
        return []
    found = (Run(*row) for row in unreadable.rows(connection, _SIDE_RUNS, {"of_task": task.id}))
    moves = [RunMove(side_run, step(side_run, stored.at)) for side_run in found]
    return _write(connection, [move for move in moves if move.new != move.old])


def to_revive(connection: Connection, cancelled: Run, now: datetime) -> list[RunMove]:
    """Return the side runs that a cancel ended, each with the next generation of it that its undo restores."""
    values = {"tenant": cancelled.tenant, "of_task": cancelled.task_id, "itself": cancelled.id}
    found = unreadable.rows(connection, _CANCELLED_WITH, {**values, "since": cancelled.ended_at})
    ended = [(Run(*run), had_waited) for *run, had_waited in found]
    return [RunMove(run, _revived(run, now, waits=had_waited)) for run, had_waited in ended]


def _revived(run: Run, now: datetime, *, waits: bool) -> Run:
    """Return the next generation of a cancelled run; a step that waited for others waits again."""
    again = replace(run, id=new_id("r"), generation=run.generation + 1, ended_at=None)
    if waits:
        return replace(again, state=State.WAITING)
    return replace(again, state=State.SCHEDULED, wake_at=max(run.scheduled_for, now))


def cancel(connection: Connection, open_side_runs: Sequence[Run], now: datetime) -> list[RunMove]:
    """Cancel these runs."""
    return _write(connection, [RunMove(run, _cancelled(run, now)) for run in open_side_runs])


def _cancelled(run: Run, now: datetime) -> Run:
    if run.state is State.RUNNING:
        return replace(run, cancel_requested=True)
    return cancelled(run, now)


def _held(run: Run, now: datetime) -> Run:
    """Return a ready run to its timer: a paused task makes nothing ready, and at the resume the run is due at once."""
    return replace(run, state=State.SCHEDULED, wake_at=now) if run.state is State.READY else run


def _write(connection: Connection, moves: list[RunMove]) -> list[RunMove]:
    for old, new in moves:
        values = {
            "state": new.state,
            "wake_at": new.wake_at,
            "ended_at": new.ended_at,
            "cancel_requested": new.cancel_requested,
            "summary": new.summary,
            "listed_at": listed_at(new),
        }
        unmoved = (runs.c.id == old.id, runs.c.state == old.state, runs.c.attempt == old.attempt)
        exactly(1, connection.execute(update(runs).where(*unmoved).values(values)).rowcount)
    return moves


def entries(moves: Sequence[RunMove], task: Task, by: ChangeOrigin) -> list[event_log.EventValues]:
    """Return the events of these moves."""
    return [
        event_log.entry(
            task.tenant,
            task.id,
            new.id,
            task.updated_at,
            kind=_kind(new),
            actor=by.actor,
            reason=by.reason,
            via=by.via,
            move=(old.state, new.state) if old.state != new.state else None,
            attempt=new.attempt or None,
            revision=task.revision,
        )
        for old, new in moves
    ]


def _kind(run: Run) -> EventKind:
    if run.cancel_requested:
        return EventKind.CANCEL_REQUESTED
    return EventKind.CANCELLED if run.state is State.CANCELLED else EventKind.PAUSED
