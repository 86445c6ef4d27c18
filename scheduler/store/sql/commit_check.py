"""After a lost COMMIT reply: check whether the transaction's rows exist.

Changed rows are locked before they are read, so the check waits for a commit that is still in progress.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duetime.scheduler.records import Added
from duetime.scheduler.rules.states import attempt_outcome
from duetime.scheduler.run_records import Claim, ReadyRun, Settlement
from duetime.scheduler.store.schema.tables.tasks import attempts, runs, tasks
from duetime.scheduler.task import State
from sqlalchemy import Connection, bindparam, select

_RUNS = (
    select(runs.c.id, runs.c.state, runs.c.attempt, runs.c.worker)
    .where(runs.c.id.in_(bindparam("run_ids", expanding=True)))
    .order_by(runs.c.id)
    .with_for_update()
)
_ENDED = select(attempts.c.run_id, attempts.c.number, attempts.c.outcome).where(
    attempts.c.run_id.in_(bindparam("run_ids", expanding=True)), attempts.c.ended_at.is_not(None)
)
_TASKS = select(tasks.c.id).where(tasks.c.id.in_(bindparam("task_ids", expanding=True)))


def added(connection: Connection, answers: Sequence[Added]) -> bool:
    """Whether the added tasks exist; a missing one may still be committed later."""
    made = {each.record.task.id for each in answers if each.created}
    return made == set(connection.execute(_TASKS, {"task_ids": list(made)}).scalars())


def made_ready(connection: Connection, ready: Sequence[ReadyRun]) -> bool:
    rows = _now(connection, [run.run_id for run in ready])
    return not ready or any(row.state is State.READY for row in rows)


def started(connection: Connection, claims: Sequence[Claim]) -> bool:
    """Whether these claims are stored: a worker starts an attempt of a run once."""
    rows = _now(connection, [claim.run.id for claim in claims])
    running = {(row.id, row.attempt, row.worker) for row in rows if row.state is State.RUNNING}
    return not claims or any((claim.run.id, claim.run.attempt, claim.worker) in running for claim in claims)


def settled(connection: Connection, settlements: Sequence[Settlement]) -> set[str]:
    """Return the runs whose attempts have ended as these settlements say: a worker ends an attempt once."""
    run_ids = [each.run_id for each in settlements]
    _now(connection, run_ids)
    ended = {tuple(row) for row in connection.execute(_ENDED, {"run_ids": run_ids})}
    return {
        each.run_id
        for each in settlements
        if (each.run_id, each.attempt, attempt_outcome(each.outcome, each.to)) in ended
    }


def _now(connection: Connection, run_ids: list[str]) -> Sequence[Any]:
    return connection.execute(_RUNS, {"run_ids": run_ids}).all()
