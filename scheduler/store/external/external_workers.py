"""Workers elsewhere: which actions they ask for, and when each last called.

Leases decide about crashes; these rows are for display, and for why a run waits.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from duetime.scheduler.records import ExternalWorker
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.schema.rows import columns_of
from duetime.scheduler.store.schema.tables.pools import external_workers
from sqlalchemy import Connection, bindparam, delete, select, update

EXTERNAL_WORKER_KEPT: Final = timedelta(days=1)
"""Age of the last call after which a worker is forgotten."""

_ALL = select(*columns_of(ExternalWorker, external_workers)).order_by(
    external_workers.c.started_at, external_workers.c.tenant, external_workers.c.user
)
_OF = (
    external_workers.c.tenant == bindparam("of_tenant"),
    external_workers.c.user == bindparam("of_user"),
)
_SEEN = update(external_workers).where(*_OF).values(seen_at=bindparam("now"))
_OLD = delete(external_workers).where(external_workers.c.seen_at < bindparam("before"))


class ExternalWorkers:
    """The workers elsewhere that claim runs of this database."""

    def __init__(self, database: Database, now: Callable[[], datetime]) -> None:
        self._database = database
        self._now = now

    def asked(self, tenant: str, user: str, actions: tuple[str, ...], *, client: str | None, everywhere: bool) -> None:
        """Note that a worker asks for actions now; workers that have not called for a day are forgotten."""
        now = self._now()
        values = {
            "tenant": tenant,
            "user": user,
            "client": client,
            "everywhere": everywhere,
            "actions": actions,
            "started_at": now,
            "seen_at": now,
        }

        def work(connection: Connection) -> None:
            statement = dialect_of(connection).insert(external_workers)
            newest = {name: statement.excluded[name] for name in ("client", "everywhere", "actions", "seen_at")}
            connection.execute(_OLD, {"before": now - EXTERNAL_WORKER_KEPT})
            connection.execute(statement.on_conflict_do_update(index_elements=["tenant", "user"], set_=newest), values)

        self._database.write(work, durable=False)

    def called(self, tenant: str, user: str) -> None:
        """Note that a worker reports on a run now."""
        seen = {"of_tenant": tenant, "of_user": user, "now": self._now()}
        self._database.write(lambda connection: connection.execute(_SEEN, seen), durable=False)

    def all(self) -> list[ExternalWorker]:
        """Return the workers of all tenants, longest known first."""
        return self._database.look(
            lambda connection: [ExternalWorker(*row) for row in unreadable.rows(connection, _ALL)]
        )

    def last_seen(self, action: str, tenant: str) -> datetime | None:
        """Return when a worker that asks for an action of a tenant last called; None where none is known."""
        return max((worker.seen_at for worker in self.all() if worker.serves(action, tenant)), default=None)
