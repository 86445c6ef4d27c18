"""Chains that recur: when the last step of a generation has ended, all steps get their next runs together.

A cancelled step ends the series, as a cancel does that of a task; its undo lets it go on. So does that of a cancel
while a step ran that succeeds. A task that a run spawned is on its own from then on.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime

from duetime.scheduler.chain.chain import Chain, is_spawned
from duetime.scheduler.events import DUETIME_ACTOR, EventKind
from duetime.scheduler.ids import new_id
from duetime.scheduler.rules.occurrences import next_run, with_deadline_like
from duetime.scheduler.rules.series.occurrence_approval import without_early_deadline
from duetime.scheduler.rules.series.overlap import pause_after_failures
from duetime.scheduler.rules.states import FAILURES
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.schema.rows import (
    IS_CURRENT,
    RUN_FIELDS,
    TASK_FIELDS,
    columns_of,
    new_run_values,
    task_and_run,
)
from duetime.scheduler.store.schema.tables.chains import chain_steps, chains, dependencies
from duetime.scheduler.store.schema.tables.events import events
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.statements import event_log
from duetime.scheduler.store.statements.endings import pauses, places
from duetime.scheduler.task import Run, State, Task
from sqlalchemy import BindParameter, Connection, bindparam, delete, null, select, true, update

_IDS: BindParameter[str] = bindparam("task_ids", expanding=True)
_CHAIN = columns_of(Chain, chains)
_RECURRING = (
    select(chains.c.id)
    .join_from(chain_steps, chains, chains.c.id == chain_steps.c.chain_id)
    .where(chain_steps.c.task_id.in_(_IDS), chains.c.repeat.is_not(None))
    .distinct()
)
_LOCK = select(chains.c.id).where(chains.c.id == bindparam("chain_id")).with_for_update()
_ONE = select(*_CHAIN).where(chains.c.id == bindparam("chain_id"))
_STEPS = (
    select(*TASK_FIELDS, *RUN_FIELDS, chain_steps.c.name)
    .select_from(tasks.join(runs, runs.c.task_id == tasks.c.id))
    .join(chain_steps, chain_steps.c.task_id == tasks.c.id)
    .where(chain_steps.c.chain_id == bindparam("chain_id"), IS_CURRENT)
    .order_by(chain_steps.c.place, tasks.c.id)
)
_INNER = dependencies.c.task_id.in_(_IDS) & dependencies.c.upstream_id.in_(_IDS)
_WAITING = select(dependencies.c.task_id).where(_INNER).distinct()
_REOPEN = update(dependencies).where(_INNER).values(closed_at=null(), outcome=null(), ended_run=null(), mismatch=null())
_PAST = update(runs).where(runs.c.task_id.in_(_IDS), IS_CURRENT).values(current=False)
_HOLD = update(runs).where(runs.c.task_id.in_(_IDS), IS_CURRENT).values(paused=true())
_FORGET = delete(chain_steps).where(chain_steps.c.task_id.in_(_IDS))
_FORGET_ENDS = delete(dependencies).where(
    dependencies.c.task_id.in_(_IDS), dependencies.c.upstream_id.in_(bindparam("spawned", expanding=True))
)
_ASKED, _CANCEL, _UNDO = events.alias("asked"), events.alias("cancel"), events.alias("undo")
_TAKEN_BACK = (
    select(_ASKED.c.run_id)
    .join_from(_ASKED, _CANCEL, (_CANCEL.c.at == _ASKED.c.at) & (_CANCEL.c.kind == EventKind.CANCELLED))
    .join(_UNDO, (_UNDO.c.task_id == _CANCEL.c.task_id) & (_UNDO.c.seq > _CANCEL.c.seq))
    .where(_ASKED.c.task_id == bindparam("of_task"), _ASKED.c.run_id == bindparam("of_run"))
    .where(_ASKED.c.kind == EventKind.CANCEL_REQUESTED, _CANCEL.c.task_id.in_(_IDS))
    .where(_UNDO.c.kind == EventKind.CANCEL_UNDONE, _UNDO.c.run_id.in_(bindparam("run_ids", expanding=True)))
    .limit(1)
)
"""The call that asked a run to stop cancelled another step, and the undo of that brought its current run."""

_MOVE_ON = (
    update(chains)
    .where(chains.c.id == bindparam("chain_id"))
    .values(due_at=bindparam("due"), number=bindparam("count"))
)


def renew(connection: Connection, ended: Collection[str], now: datetime) -> list[str]:
    """Make the next generations of chains whose last steps are among these tasks; return their tasks."""
    if not ended:
        return []
    found = connection.execute(_RECURRING, {"task_ids": sorted(ended)}).scalars().all()
    return [task_id for chain_id in found for task_id in _renewed(connection, chain_id, now)]


def _renewed(connection: Connection, chain_id: str, now: datetime) -> list[str]:
    given = {"chain_id": chain_id}
    dialect_of(connection).lock_rows(connection, _LOCK, given)  # of two last steps the second sees the first
    [chain] = [Chain(*row) for row in unreadable.rows(connection, _ONE, given)]
    rows = unreadable.rows(connection, _STEPS, given)
    steps = [task_and_run(row) for row in rows if not is_spawned(row.name)]
    if not _let_go_on(connection, [run for _, run in map(task_and_run, rows)]):
        return []
    counts = any(run.state is not State.SKIPPED for _, run in steps)
    coming = next_run(*chain.as_series(steps[0][0], counts=counts), now)
    if coming is None:
        return []
    ids = {"task_ids": [task.id for task, _ in steps]}
    _forget(connection, [row[0] for row in rows if is_spawned(row.name)], ids["task_ids"])
    waiting = set(connection.execute(_WAITING, ids).scalars())
    connection.execute(_REOPEN, ids)
    connection.execute(_PAST, ids)
    lost = [run for _, run in map(task_and_run, rows) if run.state in FAILURES]
    coming = replace(coming, failed_before=steps[0][1].failed_before + 1 if lost else 0)
    again = places.placed(connection, [_again(*each, coming, waits=each[0].id in waiting) for each in steps])
    pairs = [(task, run) for (task, _), run in zip(steps, again, strict=True)]
    places.ADD_RUNS.run(connection, [new_run_values(task, run) for task, run in pairs])
    _hold(connection, [task.id for task, _ in steps if task.paused])
    connection.execute(_MOVE_ON, {**given, "due": coming.scheduled_for, "count": coming.number})
    event_log.append(connection, [_event(run, now) for _, run in pairs])
    if why := pause_after_failures(steps[0][0], coming.failed_before, "generation"):
        began = [run.id for run in lost if run.started_at] or [run.id for run in lost]
        pauses.pause_chain(connection, pairs, began, why, now)
    return ids["task_ids"]


def _let_go_on(connection: Connection, latest: Sequence[Run]) -> bool:
    """Whether the chain has a next generation after these runs.

    A handler that succeeds in spite of a cancel ends the series, unless that cancel was taken back.
    """
    if any(run.ended_at is None or run.state is State.CANCELLED for run in latest):
        return False
    given = {"task_ids": [run.task_id for run in latest], "run_ids": [run.id for run in latest]}
    stopping = [{**given, "of_task": run.task_id, "of_run": run.id} for run in latest if run.cancel_requested]
    return all(connection.execute(_TAKEN_BACK, each).first() is not None for each in stopping)


def _forget(connection: Connection, spawned: Sequence[str], steps: Sequence[str]) -> None:
    """Remove spawned tasks from the chain, so that their ends decide nothing in the next generation."""
    if spawned:
        connection.execute(_FORGET, {"task_ids": list(spawned)})
        connection.execute(_FORGET_ENDS, {"task_ids": list(steps), "spawned": list(spawned)})


def _hold(connection: Connection, paused: Sequence[str]) -> None:
    if paused:
        connection.execute(_HOLD, {"task_ids": list(paused)})


def _again(task: Task, run: Run, coming: Run, *, waits: bool) -> Run:
    due = coming.scheduled_for
    again = Run(
        id=new_id("r"),
        task_id=task.id,
        tenant=task.tenant,
        scheduled_for=due,
        state=State.WAITING if waits else State.SCHEDULED,
        number=coming.number,
        wake_at=None if waits else coming.wake_at,
        missed=coming.missed,
        failed_before=coming.failed_before,
    )
    return without_early_deadline(task, with_deadline_like(task, again, run))


def _event(run: Run, now: datetime) -> event_log.EventValues:
    return event_log.entry(
        run.tenant,
        run.task_id,
        run.id,
        now,
        kind=EventKind.NEXT_OCCURRENCE,
        actor=DUETIME_ACTOR,
        reason="its chain runs again",
        move=(None, run.state),
    )
