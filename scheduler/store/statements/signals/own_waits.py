"""Waits of occurrences for an event of their own: which due runs need one, and what a change leaves of it.

A run has waited once its wait is closed. Where it ends before that, or is due again, no wait stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from duetime.scheduler.events import EventKind
from duetime.scheduler.rules.series.before_run import before_run
from duetime.scheduler.rules.series.occurrence_wait import is_same_occurrence, wait_of_each
from duetime.scheduler.store.schema.stored_change import StoredChange
from duetime.scheduler.store.schema.tables.chains import chain_steps, chains
from duetime.scheduler.store.schema.tables.events import events
from duetime.scheduler.store.schema.tables.signals import signal_waits
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.store.statements.endings import first_runs
from duetime.scheduler.store.statements.signals.kept_waits import kept
from duetime.scheduler.store.statements.signals.wait_room import OPEN_WAIT
from duetime.scheduler.store.statements.signals.wait_rows import NewWait, further, row_of
from duetime.scheduler.store.statements.undo import last_changes
from duetime.scheduler.task import Run, State, Task
from duetime.scheduler.waits.signal import OnTimeout, SignalWait
from sqlalchemy import BindParameter, Connection, bindparam, delete, func, insert, select

_JUST_BEHIND: Final = timedelta(microseconds=1)
_IDS: BindParameter[str] = bindparam("waiter_ids", expanding=True)
_CLOSED = signal_waits.c.closed_at.is_not(None)
_WAITED = select(signal_waits.c.waiter_id).where(signal_waits.c.waiter_id.in_(_IDS), _CLOSED)
_FORGET = delete(signal_waits).where(signal_waits.c.waiter_id.in_(_IDS))
_FORGET_OPEN = _FORGET.where(OPEN_WAIT)
_FORGET_CUT_OFF = _FORGET.where(
    signal_waits.c.signal_id.is_(None),
    signal_waits.c.closed_at.in_(
        select(events.c.at)
        .where(events.c.task_id == bindparam("of_task"), events.c.run_id == bindparam("of_run"))
        .where(events.c.revision == bindparam("undone"), events.c.kind == EventKind.RUN_NOW)
    ),
)
_OVER = select(signal_waits).where(signal_waits.c.waiter_id == bindparam("waiter"), _CLOSED)
_ADD = insert(signal_waits)
_LAST_HAD = (
    select(signal_waits.c.signal_at)
    .where(signal_waits.c.task_id == bindparam("of_task"), signal_waits.c.name == bindparam("of_name"))
    .where(signal_waits.c.signal_at.is_not(None))
    .order_by(signal_waits.c.signal_at.desc())
    .limit(1)
)
_other = chain_steps.alias("other")
_DUE = (
    select(chains.c.due_at)
    .join_from(chain_steps, chains, chains.c.id == chain_steps.c.chain_id)
    .where(chain_steps.c.task_id == bindparam("of_task"))
)
_OF_GENERATION = (
    select(func.min(runs.c.scheduled_for))
    .join_from(chain_steps, _other, _other.c.chain_id == chain_steps.c.chain_id)
    .join(runs, (runs.c.task_id == _other.c.task_id) & (runs.c.number == bindparam("of_number")))
    .where(chain_steps.c.task_id == bindparam("of_task"), first_runs.NOT_LEFT_OUT)
)
"""The time of an overtaken generation."""

_LEFT_OUT = (
    select(runs.c.id)
    .where(runs.c.task_id == bindparam("of_task"), runs.c.scheduled_for == bindparam("of_time"))
    .where(runs.c.id != bindparam("but"), runs.c.state == State.SKIPPED)
    .order_by(runs.c.ended_at.desc())
    .limit(1)
)


def yet_to_wait(connection: Connection, run_ids: Iterable[str]) -> list[str]:
    """Return those of the runs whose waits are not over."""
    given = sorted(run_ids)
    over = set(connection.execute(_WAITED, {"waiter_ids": given}).scalars())
    return [run_id for run_id in given if run_id not in over]


def new_wait(connection: Connection, task: Task, run: Run, opened: datetime) -> NewWait:
    """Return the wait of a due run, for a newer event than the last one that let a run of this task go."""
    wait = wait_of_each(task, _time_of(connection, task, run), opened)
    first, *others = (_behind_last(connection, task, each) for each in wait.all)
    return NewWait(task.tenant, task.id, run.id, replace(first, others=tuple(others)))


def _time_of(connection: Connection, task: Task, run: Run) -> datetime:
    """Return the time of an occurrence; of a step, whose turn came later, that of its generation.

    A step that is replayed next to it has the time of its own.
    """
    if not before_run(task).awaits_in_chain or not (run.current or first_runs.is_first(connection, run)):
        return run.scheduled_for
    given = {"of_task": task.id} if run.current else {"of_task": task.id, "of_number": run.number}
    due: datetime | None = connection.execute(_DUE if run.current else _OF_GENERATION, given).scalar()
    return min(run.scheduled_for, due or run.scheduled_for)


def _behind_last(connection: Connection, task: Task, wait: SignalWait) -> SignalWait:
    had = connection.execute(_LAST_HAD, {"of_task": task.id, "of_name": wait.name}).scalar()
    return wait if had is None else replace(wait, since=max(wait.since, had + _JUST_BEHIND))


def forget_open(connection: Connection, run_ids: Sequence[str]) -> None:
    """Delete the open waits of runs that continue without an event."""
    if run_ids:
        connection.execute(_FORGET_OPEN, {"waiter_ids": [*run_ids, *further(run_ids)]})


def forget_without_event(connection: Connection, run_ids: Sequence[str]) -> None:
    """Delete the waits of runs for which no event has come: these runs wait again when their turn comes."""
    without = [run_id for run_id, each in kept(connection, run_ids).items() if each.signal is None]
    if without:
        connection.execute(_FORGET, {"waiter_ids": [*without, *further(without)]})


def follow_change(connection: Connection, stored: StoredChange) -> None:
    """Let the waits of a task follow its change.

    The run that takes the place of another run has waited if that had. A run that is to start now waits for nothing.
    """
    old, run, current, task = stored.old_run, stored.run, stored.current, stored.task
    if not (before_run(stored.old_task).awaits or before_run(task).awaits):
        return
    if old.state is State.WAITING and (
        run.state is not State.WAITING or (old.first_ready_at and not run.first_ready_at)
    ):
        forget_open(connection, [old.id])
    if is_same_occurrence(old, current):
        _inherit(connection, old.id, current.id)
    elif stored.kind is EventKind.RUN_NOW and _place(current) != _place(old):
        _cut_off(connection, task, current, stored.at)
    elif stored.kind is EventKind.UNDONE and current.id == old.id:
        given = {"of_task": current.task_id, "of_run": current.id, "undone": task.revision - 1}
        connection.execute(_FORGET_CUT_OFF, {**given, "waiter_ids": [current.id]})
        if current.scheduled_for != old.scheduled_for:
            _take_place_again(connection, task, current)


def carry_over(connection: Connection, pairs: Iterable[tuple[Run, Run]]) -> None:
    """Give the runs that take the places of others the events that these had."""
    for old, run in pairs:
        _inherit(connection, old.id, run.id)


def _cut_off(connection: Connection, task: Task, run: Run, now: datetime) -> None:
    """Mark the wait of a run that starts now as over. A wait that an event has ended keeps that event."""
    if yet_to_wait(connection, [run.id]):
        wait = row_of(new_wait(connection, task, run, now), None, now)
        connection.execute(_ADD, {**wait, "closed_at": now, "on_timeout": OnTimeout.RUN})


def _place(run: Run) -> tuple[str, State, datetime]:
    return run.id, run.state, run.scheduled_for


def _take_place_again(connection: Connection, task: Task, run: Run) -> None:
    """Give an occurrence that comes back, since what left it out was undone, what it had come by before that."""
    given = {"of_task": run.task_id, "of_time": run.scheduled_for, "but": run.id}
    if last_changes.began_by_last_change(connection, task, run):  # else it was moved, and is the same occurrence
        left_out = connection.execute(_LEFT_OUT, given).scalar_one()
        connection.execute(_FORGET, {"waiter_ids": [run.id, *further([run.id])]})
        _inherit(connection, left_out, run.id)


def _inherit(connection: Connection, from_run: str, to_run: str) -> None:
    for row in connection.execute(_OVER, {"waiter": from_run}).mappings().all():
        connection.execute(_ADD, {**row, "waiter_id": to_run})
