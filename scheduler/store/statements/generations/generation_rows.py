"""Reads a generation of a chain that recurs, and stores the next one: all steps get their runs together."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, NamedTuple

from duetime.scheduler.chain.chain import Chain, is_spawned
from duetime.scheduler.events import DUETIME_ACTOR, EventKind
from duetime.scheduler.ids import new_id
from duetime.scheduler.rules.occurrences import with_deadline_like
from duetime.scheduler.rules.series.occurrence_approval import without_early_deadline
from duetime.scheduler.rules.series.overlap import Continuation, continuation_after
from duetime.scheduler.rules.series.overtake import with_overtake_time
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.schema.rows import (
    IS_CURRENT,
    RUN_FIELDS,
    TASK_FIELDS,
    columns_of,
    in_json,
    new_run_values,
    task_and_run,
)
from duetime.scheduler.store.schema.tables.chains import chain_steps, chains, dependencies, spawned_tasks
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.sql.locks import lock_tasks
from duetime.scheduler.store.statements import event_log
from duetime.scheduler.store.statements.endings import places
from duetime.scheduler.task import Run, State, Task
from sqlalchemy import BindParameter, Connection, bindparam, literal_column, null, select, true, union_all, update

OPEN_GENERATION_REASON: Final = "generation {} was still open"
"""Why a generation was left out."""

RENEWED_REASON: Final = "its chain runs again"
"""Why a generation begins."""

StepRuns = Sequence[tuple[Task, Run]]
"""The steps of a chain with their runs of one generation."""


class Generation(NamedTuple):
    """The current generation of a chain: its steps, and the tasks that their runs have spawned."""

    chain: Chain
    steps: StepRuns
    spawned: StepRuns

    @property
    def all(self) -> StepRuns:
        return [*self.steps, *self.spawned]

    @property
    def opened(self) -> datetime | None:
        """Since when it is open: since its first step might start."""
        return min((run.first_ready_at for _, run in self.steps if run.first_ready_at), default=None)

    @property
    def failed_before(self) -> int:
        """The number of generations that failed in a row before it; a resume restarts that of its open steps alone."""
        return min(run.failed_before for _, run in self.steps)

    def as_series(self, *, counts: bool = True) -> tuple[Task, Run]:
        """Return the chain as a series, and this generation as a run of that, as `Chain.as_series` does.

        A generation that was moved past later ones is the last of them: they do not come.
        """
        series, run = self.chain.as_series(self.steps[0][0], counts=counts, opened=self.opened)
        moved_to = min(each.scheduled_for for _, each in self.steps)
        return series, replace(run, scheduled_for=max(run.scheduled_for, moved_to))

    def continuation(self, now: datetime) -> Continuation:
        """Return how the chain continues once all of this has ended; a generation that was skipped whole is no run."""
        counts = any(run.state is not State.SKIPPED for _, run in self.steps)
        return continuation_after(*self.as_series(counts=counts), now)


_CHAIN = columns_of(Chain, chains)
_LOCK = select(chains.c.id).where(chains.c.id == bindparam("chain_id")).with_for_update()
_ONE = select(*_CHAIN).where(chains.c.id == bindparam("chain_id"))
_STEPS = (
    select(*TASK_FIELDS, *RUN_FIELDS, chain_steps.c.name)
    .select_from(tasks.join(runs, runs.c.task_id == tasks.c.id))
    .join(chain_steps, chain_steps.c.task_id == tasks.c.id)
    .where(chain_steps.c.chain_id == bindparam("chain_id"), IS_CURRENT)
    .order_by(chain_steps.c.place, tasks.c.id)
)
_TASKS = select(chain_steps.c.task_id).where(chain_steps.c.chain_id == bindparam("chain_id"))
_OF_CHAINS = select(chain_steps.c.chain_id).where(chain_steps.c.task_id.in_(bindparam("task_ids", expanding=True)))
_TASKS_OF_CHAINS = select(chain_steps.c.task_id).where(chain_steps.c.chain_id.in_(_OF_CHAINS))
_RECURRING = (
    select(chains.c.id)
    .join_from(chain_steps, chains, chains.c.id == chain_steps.c.chain_id)
    .where(chain_steps.c.task_id.in_(bindparam("task_ids", expanding=True)), chains.c.repeat.is_not(None))
    .distinct()
)
_REACHED = union_all(
    _RECURRING.add_columns(literal_column("0").label("past")),
    select(spawned_tasks.c.task_id, literal_column("1")).where(
        spawned_tasks.c.task_id.in_(bindparam("task_ids", expanding=True))
    ),
)
_IDS: BindParameter[str] = bindparam("task_ids", expanding=True)
_INNER = dependencies.c.task_id.in_(_IDS) & dependencies.c.upstream_id.in_(_IDS)
_WAITING = select(dependencies.c.task_id).where(_INNER).distinct()
_REOPEN = update(dependencies).where(_INNER).values(closed_at=null(), outcome=null(), ended_run=null(), mismatch=null())
CHANGED = (
    update(tasks)
    .where(tasks.c.id.in_(_IDS))
    .values(revision=tasks.c.revision + 1, updated_at=bindparam("now", type_=tasks.c.updated_at.type))
)
"""Lists of a task look for side runs after a change of it."""
_PAST = update(runs).where(runs.c.task_id.in_(_IDS), IS_CURRENT).values(current=False)
HOLD = update(runs).where(runs.c.task_id.in_(_IDS), runs.c.ended_at.is_(None)).values(paused=true())
"""Marks the open runs of tasks that are paused."""
_MOVE_ON = (
    update(chains)
    .where(chains.c.id == bindparam("chain_id"))
    .values(due_at=bindparam("due"), number=bindparam("count"), generation=chains.c.generation + 1)
)


def chains_of(connection: Connection, task_ids: Collection[str]) -> Sequence[str]:
    """Return the chains that recur of which these tasks are steps."""
    return connection.execute(_RECURRING, {"task_ids": sorted(task_ids)}).scalars().all()


class ReachedGenerations(NamedTuple):
    """The `chains` that recur of which tasks are steps, and those of them that a run `spawned` before."""

    chains: Sequence[str]
    spawned: Sequence[str]


def reached(connection: Connection, task_ids: Collection[str]) -> ReachedGenerations:
    """Return in which generations ends of these tasks may decide: the current ones of chains, and others."""
    rows = connection.execute(_REACHED, {"task_ids": sorted(task_ids)}).all()
    return ReachedGenerations([row.id for row in rows if not row.past], [row.id for row in rows if row.past])


def locked(connection: Connection, chain_id: str) -> Generation:
    """Return the current generation of a chain, whose row stays locked: of two last steps the second sees the first."""
    given = {"chain_id": chain_id}
    dialect_of(connection).lock_rows(connection, _LOCK, given)
    [chain] = [Chain(*row) for row in unreadable.rows(connection, _ONE, given)]
    rows = [(row.name, task_and_run(row)) for row in unreadable.rows(connection, _STEPS, given)]
    spawned = [pair for name, pair in rows if is_spawned(name)]
    return Generation(chain, [pair for name, pair in rows if not is_spawned(name)], spawned)


def locked_with_steps(connection: Connection, chain_id: str) -> Generation:
    """Return the current generation of a chain, like `locked`; the tasks of its steps are locked before the chain."""
    lock_tasks(connection, connection.execute(_TASKS, {"chain_id": chain_id}).scalars())
    return locked(connection, chain_id)


def lock_with_chains(connection: Connection, task_ids: Collection[str]) -> None:
    """Lock these tasks, and all steps of the chains that they belong to, in the order of all locks of tasks."""
    steps = connection.execute(_TASKS_OF_CHAINS, {"task_ids": sorted(task_ids)}).scalars()
    lock_tasks(connection, [*task_ids, *steps])


def store(
    connection: Connection,
    last: Generation,
    coming: Run,
    now: datetime,
    *,
    overlapped: Sequence[Run] = (),
    reason: str = RENEWED_REASON,
) -> StepRuns:
    """Store the `coming` generation after the `last` one, and return the steps with their new runs.

    Open runs of the last one become side runs. Each first step also gets the runs, skipped, of generations that
    fell due before it and were `overlapped`.
    """
    chain, steps = last.chain, last.steps
    ids = {"task_ids": [task.id for task, _ in steps]}
    waiting = set(connection.execute(_WAITING, ids).scalars())
    connection.execute(_REOPEN, ids)
    connection.execute(_PAST, ids)
    first = [task for task, _ in steps if task.id not in waiting]
    left_out = [(task, replace(run, id=new_id("r"), task_id=task.id)) for task in first for run in overlapped]
    begun = [(task, _next(task, run, coming, waits=task.id in waiting)) for task, run in steps]
    pairs = [*left_out, *begun]
    stored = places.placed(connection, [run for _, run in pairs])
    pairs = [(task, run) for (task, _), run in zip(pairs, stored, strict=True)]
    places.ADD_RUNS.run(connection, [new_run_values(task, run) for task, run in pairs])
    if paused := [task.id for task, _ in steps if task.paused]:
        connection.execute(HOLD, {"task_ids": paused})
    connection.execute(_MOVE_ON, {"chain_id": chain.id, "due": coming.scheduled_for, "count": coming.number})
    event_log.append(connection, [_event(run, chain, now, reason) for _, run in pairs])
    return pairs[len(left_out) :]


def _next(task: Task, run: Run, coming: Run, *, waits: bool) -> Run:
    due = coming.scheduled_for
    again = Run(
        id=new_id("r"),
        task_id=task.id,
        tenant=task.tenant,
        scheduled_for=due,
        state=State.WAITING if waits else State.SCHEDULED,
        number=coming.number,
        wake_at=None if waits else coming.wake_at,
        first_ready_at=None if waits else coming.first_ready_at,
        missed=coming.missed,
        failed_before=coming.failed_before,
    )
    return without_early_deadline(task, with_deadline_like(task, with_overtake_time(task, again), run))


def _event(run: Run, chain: Chain, now: datetime, reason: str) -> event_log.EventValues:
    left_out = run.state is State.SKIPPED
    return event_log.entry(
        run.tenant,
        run.task_id,
        run.id,
        now,
        kind=EventKind.SKIPPED if left_out else EventKind.NEXT_OCCURRENCE,
        actor=DUETIME_ACTOR,
        reason=OPEN_GENERATION_REASON.format(chain.number) if left_out else reason,
        move=(None, run.state),
        after={"scheduled_for": in_json(run.scheduled_for), "number": run.number} if left_out else None,
    )
