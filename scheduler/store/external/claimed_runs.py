"""Runs that workers elsewhere hold, or may claim: read by run, as each of their calls names one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from duetime.scheduler.events import EventKind
from duetime.scheduler.run_records import Claim
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.schema.rows import task_and_run
from duetime.scheduler.store.schema.tables.events import events
from duetime.scheduler.store.schema.tables.tasks import attempts, runs, tasks
from duetime.scheduler.store.statements.read import TASK_AND_RUN
from duetime.scheduler.store.statements.ready_runs import ATTEMPTS_OF_RUNS, IS_ACTIVE, IS_RUNNING, RUNS_OF_TASKS
from duetime.scheduler.task import State
from sqlalchemy import Connection, and_, bindparam, select

MAX_OVERDUE_RUNS_READ = 500
"""Running runs, the longest running first, of which one look finds those past their time limit."""

MAX_LANES_SERVED = 1_000
"""Actions of tenants, each with ready runs, that one claim of an operator's worker considers."""

_THESE = runs.c.id.in_(bindparam("run_ids", expanding=True))
_OF_ACTIONS = tasks.c.action.in_(bindparam("actions", expanding=True))
_THIS_ATTEMPT = and_(attempts.c.run_id == runs.c.id, attempts.c.number == runs.c.attempt)
_HELD = (
    TASK_AND_RUN.add_columns(runs.c.worker, runs.c.reserved, runs.c.token)
    .add_columns(runs.c.lease_until, attempts.c.started_at.label("attempt_started_at"))
    .join(attempts, _THIS_ATTEMPT)
    .where(runs.c.id == bindparam("run_id"), runs.c.state == State.RUNNING)
)
_OWNERS = select(runs.c.id, runs.c.tenant, tasks.c.action).select_from(RUNS_OF_TASKS).where(_THESE)
_READY_LANES = (
    select(tasks.c.action, runs.c.tenant)
    .select_from(RUNS_OF_TASKS)
    .where(IS_ACTIVE, runs.c.state == State.READY, _OF_ACTIONS)
    .distinct()
    .order_by(runs.c.tenant, tasks.c.action)
    .limit(MAX_LANES_SERVED)
)
_OPEN = (
    select(runs.c.id, tasks.c.action, attempts.c.started_at)
    .select_from(ATTEMPTS_OF_RUNS.join(tasks, tasks.c.id == runs.c.task_id))
    .where(IS_RUNNING, _OF_ACTIONS)
    .order_by(attempts.c.started_at)
    .limit(MAX_OVERDUE_RUNS_READ)
)
_ENDED = (
    select(runs.c.tenant, runs.c.task_id, attempts.c.worker, attempts.c.outcome, attempts.c.reason, attempts.c.ended_at)
    .select_from(ATTEMPTS_OF_RUNS)
    .where(attempts.c.run_id == bindparam("run_id"), attempts.c.number == bindparam("attempt"))
)
_ENDS = (
    *(EventKind.SUCCEEDED, EventKind.FAILED, EventKind.RETRYING, EventKind.SUSPENDED, EventKind.CRASHED),
    *(EventKind.EXPIRED, EventKind.CANCELLED, EventKind.DAMAGED),
)
_END_EVENT = (
    select(events.c.to_state)
    .where(events.c.task_id == bindparam("task_id"), events.c.run_id == bindparam("run_id"))
    .where(events.c.attempt == bindparam("attempt"), events.c.kind.in_(_ENDS))
    .order_by(events.c.seq.desc())
    .limit(1)
)


@dataclass(frozen=True, slots=True)
class HeldRun:
    """A running run with its claim: when its attempt began, and when the lease of that ends."""

    claim: Claim
    attempt_started_at: datetime
    lease_until: datetime | None


class EndedAttempt(NamedTuple):
    """An attempt of a run, ended or not, and the state in which it left the run, where that is known."""

    tenant: str
    worker: str
    outcome: str | None
    reason: str | None
    ended_at: datetime | None
    state: State | None = None


class OpenAttempt(NamedTuple):
    """A running attempt of an external action."""

    run_id: str
    action: str
    started_at: datetime


@dataclass(frozen=True, slots=True)
class RunOwner:
    """The tenant and the action of a run."""

    tenant: str
    action: str = field(default="")


class ClaimedRuns:
    """Reads runs for workers elsewhere. The caller checks whose they are."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def held(self, run_id: str) -> HeldRun | None:
        """Return a running run, None for any other."""

        def work(connection: Connection) -> HeldRun | None:
            found = unreadable.rows(connection, _HELD, {"run_id": run_id})
            if not found:
                return None
            row, (task, run) = found[0], task_and_run(found[0])
            claim = Claim(run, task, row.worker, row.reserved or {}, row.token or "")
            return HeldRun(claim, row.attempt_started_at, row.lease_until)

        return self._database.look(work)

    def ended(self, run_id: str, attempt: int) -> EndedAttempt | None:
        """Return how an attempt of a run ended; None where there was no such attempt."""

        def work(connection: Connection) -> EndedAttempt | None:
            found = unreadable.rows(connection, _ENDED, {"run_id": run_id, "attempt": attempt})
            if not found:
                return None
            row = found[0]
            of = {"task_id": row.task_id, "run_id": run_id, "attempt": attempt}
            state = connection.execute(_END_EVENT, of).scalar()
            return EndedAttempt(row.tenant, row.worker, row.outcome, row.reason, row.ended_at, state)

        return self._database.read(work)

    def owners(self, run_ids: Collection[str]) -> Mapping[str, RunOwner]:
        """Return the tenants and actions of runs."""
        wanted = {"run_ids": list(run_ids)}
        return self._database.look(
            lambda connection: {run_id: RunOwner(*row) for run_id, *row in unreadable.rows(connection, _OWNERS, wanted)}
        )

    def ready_lanes(self, actions: Collection[str]) -> list[tuple[str, str]]:
        """Return those of some actions, each with its tenant, that have ready runs."""
        wanted = {"actions": list(actions)}
        return self._database.look(
            lambda connection: [(action, tenant) for action, tenant in connection.execute(_READY_LANES, wanted)]
        )

    def open_attempts(self, actions: Collection[str]) -> list[OpenAttempt]:
        """Return running attempts of some actions, the longest running first."""
        wanted = {"actions": list(actions)}
        return self._database.look(
            lambda connection: [OpenAttempt(*row) for row in unreadable.rows(connection, _OPEN, wanted)]
        )
