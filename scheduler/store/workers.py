"""Workers: the processes that run tasks, and when each was last seen. For display only; leases decide about crashes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any

from duetime.scheduler.records import WorkerProcess
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.schema.pool_tables import workers
from duetime.scheduler.store.schema.rows import columns_of
from duetime.scheduler.store.schema.tables import runs
from duetime.scheduler.task import State
from sqlalchemy import Connection, delete, func, select

_ALL = select(*columns_of(WorkerProcess, workers)).order_by(workers.c.started_at, workers.c.id)
_IN_HAND = select(runs.c.worker, func.count()).where(runs.c.state == State.RUNNING).group_by(runs.c.worker)
_NAMES = [field.name for field in fields(WorkerProcess)]


class Workers:
    """The workers of this database, on any machine."""

    def __init__(self, database: Database, now: Callable[[], datetime]) -> None:
        self._database = database
        self._now = now

    def beat(self, worker: WorkerProcess) -> None:
        """Store the report of a worker; only that worker's own process may call this."""
        values = {name: getattr(worker, name) for name in _NAMES} | {"seen_at": self._now()}
        self._database.write(lambda connection: _store(connection, values), durable=False)

    def all(self) -> list[WorkerProcess]:
        """Return the workers, longest started first, silent ones included."""
        return self._database.read(
            lambda connection: [WorkerProcess(*row) for row in unreadable.rows(connection, _ALL)]
        )

    def active_runs(self) -> Mapping[str, int]:
        """Return the number of running runs by worker, counted from the runs themselves."""
        return self._database.read(
            lambda connection: {str(name): count for name, count in unreadable.rows(connection, _IN_HAND)}
        )

    def remove(self, worker_id: str) -> None:
        """Remove a worker that stopped in order."""
        self._database.write(lambda connection: connection.execute(delete(workers).where(workers.c.id == worker_id)))

    def forget(self, before: datetime) -> int:
        """Remove the workers last seen before `before`; return how many."""
        old = delete(workers).where(workers.c.seen_at < before)
        return self._database.write(lambda connection: connection.execute(old).rowcount)


def _store(connection: Connection, values: Mapping[str, Any]) -> None:
    said = dialect_of(connection).insert(workers)
    newest = {name: said.excluded[name] for name in _NAMES}
    connection.execute(said.on_conflict_do_update(index_elements=["id"], set_=newest), values)
