"""Workers: the processes that run tasks, when each was last seen, and whether it is to drain.

Leases decide about crashes; what a worker reports here is for display.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from duetime.scheduler.audit.entry import AuditEntry
from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.history.worker_run import WorkerRun
from duetime.scheduler.records import RunHolder, WorkerProcess, is_external_worker
from duetime.scheduler.remedies import ListKeys, ListWorkers
from duetime.scheduler.store.audit import entries
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.schema.rows import columns_of
from duetime.scheduler.store.schema.tables.pools import workers
from duetime.scheduler.store.schema.tables.tasks import attempts, runs, tasks
from duetime.scheduler.store.statements.ready_runs import ATTEMPTS_OF_RUNS, IS_RUNNING
from duetime.scheduler.task import State
from sqlalchemy import Connection, bindparam, delete, func, select, update

_ALL = select(*columns_of(WorkerProcess, workers)).order_by(workers.c.started_at, workers.c.id)
_IN_HAND = select(runs.c.worker, func.count()).where(runs.c.state == State.RUNNING).group_by(runs.c.worker)
_RUNS = (
    select(
        *(runs.c.id, runs.c.task_id, runs.c.tenant, tasks.c.action, tasks.c.priority),
        *(attempts.c.number, attempts.c.worker, attempts.c.started_at),
    )
    .select_from(ATTEMPTS_OF_RUNS.join(tasks, tasks.c.id == runs.c.task_id))
    .where(IS_RUNNING)
    .order_by(attempts.c.started_at, runs.c.id)
)
_HOLDERS = (
    select(runs.c.id, runs.c.worker, workers.c.seen_at, runs.c.lease_until)
    .select_from(runs.outerjoin(workers, workers.c.id == runs.c.worker))
    .where(runs.c.id.in_(bindparam("run_ids", expanding=True)))
    .where(runs.c.state == State.RUNNING, runs.c.worker.is_not(None))
)
_NAMES = [field.name for field in fields(WorkerProcess)]
_REPORTED = [name for name in _NAMES if name != "drain"]

MAX_WORKER_RUNS = 200
"""Running runs that a look at the workers returns."""


class DrainMode(StrEnum):
    """The way in which a worker drains: runs end by themselves (`finish`), or are handed back after grace (`now`)."""

    FINISH = "finish"
    NOW = "now"


class WorkerNotFound(DuetimeError):
    """No worker process has the id."""

    code = "not_found"

    def __init__(self, worker_id: str) -> None:
        shown = f"{worker_id[:80]!r}"
        text = f"no worker {shown}."
        remedy: ListWorkers | ListKeys = ListWorkers()
        if is_external_worker(worker_id):
            text = (
                f"{shown} is an external worker, which is not drained or resumed here: stop its program, or revoke its "
                "key."
            )
            remedy = ListKeys()
        super().__init__(text, argument="worker_id", remedy=remedy)


class Workers:
    """The workers of this database, on any machine."""

    def __init__(self, database: Database, now: Callable[[], datetime]) -> None:
        self._database = database
        self._now = now

    def beat(self, worker: WorkerProcess) -> DrainMode | None:
        """Store the report of a worker, and return whether it is to drain; only its own process may call this.

        A row that others have removed comes back with the `drain` of the report.
        """
        values = {name: getattr(worker, name) for name in _NAMES} | {"seen_at": self._now()}
        wanted = self._database.write(lambda connection: _store(connection, values), durable=False)
        return DrainMode(wanted) if wanted else None

    def drain(self, worker_id: str | None, mode: DrainMode, act: AuditEntry) -> list[str]:
        """Ask a worker to drain, None for each that is listed now; return those that were not asked so yet.

        Raises WorkerNotFound.
        """
        return self._ask(worker_id, mode, act)

    def resume(self, worker_id: str | None, act: AuditEntry) -> list[str]:
        """End the drain of a worker, None for each that is listed now; return those that drained.

        Raises WorkerNotFound.
        """
        return self._ask(worker_id, None, act)

    def _ask(self, worker_id: str | None, mode: DrainMode | None, act: AuditEntry) -> list[str]:
        statement = update(workers).where(workers.c.drain.is_distinct_from(mode)).values(drain=mode)
        known = select(workers.c.id)
        if worker_id is not None:
            statement, known = statement.where(workers.c.id == worker_id), known.where(workers.c.id == worker_id)

        def work(connection: Connection) -> list[str]:
            if worker_id is not None and connection.execute(known).first() is None:
                raise WorkerNotFound(worker_id)
            found = sorted(connection.execute(statement.returning(workers.c.id)).scalars())
            for each in found:
                entries.store(connection, replace(act, subject=each), self._now())
            return found

        return self._database.write(work)

    def all(self) -> list[WorkerProcess]:
        """Return the workers, longest started first, silent ones included."""
        return self._database.look(
            lambda connection: [WorkerProcess(*row) for row in unreadable.rows(connection, _ALL)]
        )

    def active_runs(self) -> Mapping[str, int]:
        """Return the number of running runs by worker, counted from the runs themselves."""
        return self._database.look(
            lambda connection: {str(name): count for name, count in unreadable.rows(connection, _IN_HAND)}
        )

    def runs(self, *, limit: int = MAX_WORKER_RUNS) -> list[WorkerRun]:
        """Return runs that are running now, of all tenants, the longest running first."""
        statement = _RUNS.limit(limit)
        return self._database.look(
            lambda connection: [WorkerRun(*row) for row in unreadable.rows(connection, statement)]
        )

    def holders(self, run_ids: Collection[str]) -> Mapping[str, RunHolder]:
        """Return who holds the running ones among these runs, by run."""
        wanted = {"run_ids": list(run_ids)}
        return self._database.look(
            lambda connection: {
                run_id: RunHolder(*row) for run_id, *row in unreadable.rows(connection, _HOLDERS, wanted)
            }
        )

    def remove(self, worker_id: str) -> None:
        """Remove a worker that stopped in order."""
        self._database.write(lambda connection: connection.execute(delete(workers).where(workers.c.id == worker_id)))

    def forget(self, before: datetime) -> int:
        """Remove the workers last seen before `before`; return how many."""
        old = delete(workers).where(workers.c.seen_at < before)
        return self._database.write(lambda connection: connection.execute(old).rowcount)


def _store(connection: Connection, values: Mapping[str, Any]) -> str | None:
    statement = dialect_of(connection).insert(workers)
    newest = {name: statement.excluded[name] for name in _REPORTED}
    stored = statement.on_conflict_do_update(index_elements=["id"], set_=newest).returning(workers.c.drain)
    wanted: str | None = connection.execute(stored, values).scalar_one()
    return wanted
