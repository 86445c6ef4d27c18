"""Generations of chains that were missed: the policy of the chain says which one takes their place, with all steps."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime

from duetime.scheduler.events import DUETIME_ACTOR, EventKind
from duetime.scheduler.records import Change
from duetime.scheduler.rules.states import check_move
from duetime.scheduler.store.schema.rows import IS_CURRENT
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.store.statements import event_log
from duetime.scheduler.store.statements.generations import generation_rows
from duetime.scheduler.store.statements.generations.generation_rows import Generation
from duetime.scheduler.task import Run, State
from duetime.scheduler.views import TaskRecord
from sqlalchemy import Connection, bindparam, null, update

CatchUp = Callable[[TaskRecord, datetime], Change | None]
"""Returns the change that replaces a missed occurrence by another one; None where it runs itself."""

_SKIP = (
    update(runs)
    .where(runs.c.task_id.in_(bindparam("task_ids", expanding=True)), IS_CURRENT)
    .values(state=State.SKIPPED, wake_at=null(), ended_at=bindparam("now"), listed_at=bindparam("now"))
)


def left_out(
    connection: Connection, task_ids: Collection[str], catch_up: CatchUp, reason: str, now: datetime
) -> set[str]:
    """Replace the missed generations of the chains of these first steps; return the runs that do not start by that."""
    found = set[str]()
    for chain_id in generation_rows.chains_of(connection, task_ids):
        generation = generation_rows.locked_with_steps(connection, chain_id)
        coming = None if _has_begun(generation) else _replacement(generation, catch_up, now)
        if coming is not None:
            found |= {run.id for _, run in generation.steps}
            _replace(connection, generation, coming, reason, now)
    return found


def _has_begun(generation: Generation) -> bool:
    """Whether a step was looked at in time, or has ended."""
    return generation.opened is not None or any(run.ended_at for _, run in generation.steps)


def _replacement(generation: Generation, catch_up: CatchUp, now: datetime) -> Run | None:
    change = catch_up(TaskRecord(*generation.as_series()), now)
    return change.next_run if change else None


def _replace(connection: Connection, generation: Generation, coming: Run, reason: str, now: datetime) -> None:
    ids = [task.id for task, _ in generation.steps]
    connection.execute(_SKIP, {"task_ids": ids, "now": now})
    event_log.append(connection, [_event(run, reason, now) for _, run in generation.steps])
    generation_rows.store(connection, generation, replace(coming, failed_before=generation.failed_before), now)


def _event(run: Run, reason: str, now: datetime) -> event_log.EventValues:
    check_move(run.state, State.SKIPPED)
    return event_log.entry(
        run.tenant,
        run.task_id,
        run.id,
        now,
        kind=EventKind.SKIPPED,
        actor=DUETIME_ACTOR,
        reason=reason,
        move=(run.state, State.SKIPPED),
    )
