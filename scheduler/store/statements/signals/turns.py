"""Runs that wait again as a task before them runs again: steps whose turn had come, and what a cancel let go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from duetime.scheduler.events import DUETIME_ACTOR, EventKind
from duetime.scheduler.rules.series.before_run import before_run
from duetime.scheduler.rules.series.occurrence_approval import without_early_deadline
from duetime.scheduler.rules.states import check_move
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.rows import IS_CURRENT, listed_at, task_and_run
from duetime.scheduler.store.schema.tables.chains import chain_steps, dependencies
from duetime.scheduler.store.schema.tables.events import events
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.sql.batch import Batch
from duetime.scheduler.store.sql.locks import exactly
from duetime.scheduler.store.statements import event_log
from duetime.scheduler.store.statements.approvals import questions
from duetime.scheduler.store.statements.read import TASK_AND_RUN
from duetime.scheduler.store.statements.signals import own_waits
from duetime.scheduler.task import Run, State, Task
from sqlalchemy import Connection, bindparam, exists, null, select, update

_RUNS_AGAIN = "an upstream task runs again"
"""Why a run waits that had gone on, or had ended, before."""

_own, _other = chain_steps.alias("own"), chain_steps.alias("other")
_BEHIND = (
    select(dependencies.c.task_id)
    .join_from(dependencies, _own, _own.c.task_id == dependencies.c.task_id)
    .join(_other, (_other.c.task_id == dependencies.c.upstream_id) & (_other.c.chain_id == _own.c.chain_id))
    .where(dependencies.c.upstream_id.in_(bindparam("task_ids", expanding=True)), dependencies.c.closed_at.is_not(None))
)
_BEFORE_START = (
    TASK_AND_RUN.where(tasks.c.id.in_(_BEHIND), IS_CURRENT, runs.c.attempt == 0)
    .where(runs.c.state.in_([State.WAITING, State.SCHEDULED]))
    .order_by(tasks.c.id)
    .with_for_update(of=[runs, tasks])
)
_SINCE = exists().where(
    events.c.task_id == runs.c.task_id, events.c.run_id == runs.c.id, events.c.at >= bindparam("since")
)
_LET_GO = (
    TASK_AND_RUN.where(
        tasks.c.id.in_(
            select(dependencies.c.task_id).where(
                dependencies.c.upstream_id.in_(bindparam("task_ids", expanding=True)),
                dependencies.c.closed_at >= bindparam("since"),
            )
        )
    )
    .where(IS_CURRENT, runs.c.attempt == 0, runs.c.state.in_([State.SCHEDULED, State.READY]))
    .where(_SINCE.where(events.c.kind == EventKind.UNBLOCKED), ~_SINCE.where(events.c.kind == EventKind.RUN_NOW))
    .order_by(tasks.c.id)
    .with_for_update(of=[runs, tasks])
)
_WAIT = Batch(
    update(runs)
    .where(runs.c.id == bindparam("run_id"), runs.c.ended_at.is_(None))
    .values(
        state=State.WAITING,
        wake_at=null(),
        first_ready_at=null(),
        deadline=bindparam("due_by"),
        drop_at=bindparam("drop"),
        listed_at=bindparam("listed"),
    )
)


def take_back(connection: Connection, task_ids: Sequence[str], now: datetime) -> None:
    """Let steps behind these wait for their turn again: what they ask and wait for ends, and begins again with it.

    A yes and an event that a step had stay. A step that has both has gone on, and does not wait again.
    """
    rows = unreadable.rows(connection, _BEFORE_START, {"task_ids": list(task_ids)})
    steps = [task_and_run(row) for row in rows]
    unanswered = questions.unanswered(connection, [run.id for _, run in steps])
    lost = _lacking(
        connection, [(task, run) for task, run in steps if run.id in unanswered or not _is_before_turn(run)]
    )
    again = _wait(connection, lost, now)
    own_waits.forget_without_event(connection, [run.id for run in again])
    questions.withdraw(connection, [(run.id, run.state) for run in again], now)


def hold_again(connection: Connection, task_ids: Sequence[str], since: datetime, now: datetime) -> None:
    """Let what an end of these tasks `since` then let go wait for them again, unless it has begun or was run now.

    A yes and an event that a run had stay.
    """
    rows = unreadable.rows(connection, _LET_GO, {"task_ids": list(task_ids), "since": since})
    _wait(connection, [task_and_run(row) for row in rows], now)


def _wait(connection: Connection, found: Sequence[tuple[Task, Run]], now: datetime) -> list[Run]:
    """Let these runs wait for their turn, and return them as they are then."""
    again = [without_early_deadline(task, _before_turn(run)) for task, run in found]
    values = [
        {"run_id": run.id, "due_by": run.deadline, "drop": run.drop_at, "listed": listed_at(run)} for run in again
    ]
    exactly(len(values), _WAIT.run(connection, values))
    event_log.append(connection, [event_of(old, run, now) for (_, old), run in zip(found, again, strict=True)])
    return again


def _is_before_turn(run: Run) -> bool:
    """Whether the turn of a run is to come, unless it was moved while it was asked for."""
    return run.state is State.WAITING and run.first_ready_at is None


def _before_turn(run: Run) -> Run:
    return replace(run, state=State.WAITING, wake_at=None, first_ready_at=None)


def _lacking(connection: Connection, steps: Sequence[tuple[Task, Run]]) -> Sequence[tuple[Task, Run]]:
    """Return those of the steps that still lack the approval or the event that their turn needs."""
    asking = [run.id for task, run in steps if before_run(task).asks_in_chain]
    waiting = [run.id for task, run in steps if before_run(task).awaits_in_chain]
    lacking = set(own_waits.yet_to_wait(connection, waiting)) if waiting else set()
    if asking:
        lacking |= set(asking) - questions.approved(connection, steps[0][0].tenant, asking).keys()
    return [(task, run) for task, run in steps if run.id in lacking]


def event_of(old: Run | None, run: Run, now: datetime) -> event_log.EventValues:
    """Return the event of a run that waits again; one in the place of an ended run had no state before."""
    was = old.state if old else None
    if was is not run.state:
        check_move(was, run.state)
    return event_log.entry(
        run.tenant,
        run.task_id,
        run.id,
        now,
        kind=EventKind.REVIVED,
        actor=DUETIME_ACTOR,
        reason=_RUNS_AGAIN,
        move=(was, run.state) if was is not run.state else None,
    )
