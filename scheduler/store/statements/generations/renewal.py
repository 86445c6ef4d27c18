"""Chains that recur: when the last step of a generation has ended, all steps get their next runs together.

A cancelled step ends the series, as a cancel does that of a task; its undo lets it continue. So does that of a cancel
while a step ran that succeeds. A task that a run spawned leaves the chain then.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime

from duetime.scheduler.chain.chain import SPAWNED_MARK
from duetime.scheduler.events import EventKind
from duetime.scheduler.rules.series.overlap import pause_after_failures
from duetime.scheduler.rules.series.overtake import is_stopping
from duetime.scheduler.rules.states import FAILURES
from duetime.scheduler.store.schema.rows import IS_CURRENT
from duetime.scheduler.store.schema.tables.chains import chain_steps, dependencies, spawned_tasks
from duetime.scheduler.store.schema.tables.events import events
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.store.statements.endings import pauses
from duetime.scheduler.store.statements.generations import generation_rows, side_generations
from duetime.scheduler.task import Run, State
from sqlalchemy import BindParameter, Connection, bindparam, delete, func, insert, select

_STEP = chain_steps.alias("step")
_IDS: BindParameter[str] = bindparam("task_ids", expanding=True)
_KEEP = insert(spawned_tasks).from_select(
    ["task_id", "tenant", "name", "run_id"],
    select(chain_steps.c.task_id, chain_steps.c.tenant, chain_steps.c.name, runs.c.id)
    .join_from(chain_steps, _STEP, _STEP.c.chain_id == chain_steps.c.chain_id)
    .join(runs, (runs.c.task_id == _STEP.c.task_id) & IS_CURRENT)
    .where(chain_steps.c.task_id.in_(_IDS))
    .where(func.substr(chain_steps.c.name, 1, func.length(_STEP.c.name) + 1) == _STEP.c.name + SPAWNED_MARK)
    .where(_STEP.c.name.not_like(f"%{SPAWNED_MARK}%")),
)
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
    .where(_UNDO.c.id > _ASKED.c.id)  # not the undo of an earlier cancel at the same instant
    .limit(1)
)
"""The call that asked a run to stop cancelled another step, and the undo of that brought its current run."""


def renew(connection: Connection, ended: Collection[str], now: datetime) -> list[str]:
    """Make the next generations of chains whose last steps are among these tasks; return their tasks.

    Of a generation that is past, the steps behind a spawned task continue.
    """
    if not ended:
        return []
    found = generation_rows.reached(connection, ended)
    side_generations.follow_spawned(connection, found.spawned, now)
    return [task_id for chain_id in found.chains for task_id in _renewed(connection, chain_id, now)]


def _renewed(connection: Connection, chain_id: str, now: datetime) -> list[str]:
    last = generation_rows.locked(connection, chain_id)
    task, _ = last.steps[0]
    if not _let_go_on(connection, [run for _, run in last.all]):
        return []
    after = last.continuation(now)
    if after.next_run is None:
        return []
    ids = [task.id for task, _ in last.steps]
    _forget(connection, [task.id for task, _ in last.spawned], ids)
    lost = [run for _, run in last.all if run.state in FAILURES]
    gave_way = any(run.gives_way for _, run in last.all)
    failed = last.failed_before + 1 if lost else last.failed_before if gave_way else 0
    coming = replace(after.next_run, failed_before=failed)
    begun = generation_rows.store(connection, last, coming, now, overlapped=after.skipped)
    if why := pause_after_failures(task, coming.failed_before, "generation"):
        began = [run.id for run in lost if run.started_at] or [run.id for run in lost]
        pauses.pause_chain(connection, begun, began, why, now)
    return ids


def _let_go_on(connection: Connection, latest: Sequence[Run]) -> bool:
    """Whether the chain has a next generation after these runs.

    A handler that succeeds in spite of a cancel ends the series, unless that cancel was taken back.
    """
    if any(run.ended_at is None or (run.state is State.CANCELLED and not run.gives_way) for run in latest):
        return False
    given = {"task_ids": [run.task_id for run in latest], "run_ids": [run.id for run in latest]}
    stopping = [{**given, "of_task": run.task_id, "of_run": run.id} for run in latest if is_stopping(run)]
    return all(connection.execute(_TAKEN_BACK, each).first() is not None for each in stopping)


def _forget(connection: Connection, spawned: Sequence[str], steps: Sequence[str]) -> None:
    """Remove spawned tasks from the chain: their ends decide in the generation of their run, not in the next one."""
    if spawned:
        connection.execute(_KEEP, {"task_ids": list(spawned)})
        connection.execute(_FORGET, {"task_ids": list(spawned)})
        connection.execute(_FORGET_ENDS, {"task_ids": list(steps), "spawned": list(spawned)})
