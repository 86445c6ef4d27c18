"""Fire addresses of tasks: one each, stored without its secret. Only the look-up by id is without a tenant."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from duetime.scheduler import remedies
from duetime.scheduler.audit.entry import AuditEntry
from duetime.scheduler.errors import Refused
from duetime.scheduler.ids import is_id
from duetime.scheduler.rules.time.times import describe
from duetime.scheduler.store.audit import entries
from duetime.scheduler.store.chains.commits import Commits
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.schema.rows import columns_of
from duetime.scheduler.store.schema.tables.signals import fire_addresses
from duetime.scheduler.store.signals.fire_call import fire
from duetime.scheduler.store.statements import read
from duetime.scheduler.task import State
from duetime.scheduler.waits.fire_address import FireAddress, Fired
from duetime.scheduler.waits.signal import ReceivedSignal
from sqlalchemy import Connection, bindparam, delete, insert, select

_COLUMNS = columns_of(FireAddress, fire_addresses)
_NAMES = [column.name for column in _COLUMNS]
_ONE = select(*_COLUMNS).where(fire_addresses.c.id == bindparam("of_id"))
_OF_TASK = select(*_COLUMNS).where(
    fire_addresses.c.task_id == bindparam("of_task"), fire_addresses.c.tenant == bindparam("of_tenant")
)
_DELETE = delete(fire_addresses).where(
    fire_addresses.c.task_id == bindparam("of_task"), fire_addresses.c.tenant == bindparam("of_tenant")
)


class FireAddresses:
    """The fire addresses of all tenants."""

    def __init__(self, database: Database, now: Callable[[], datetime], commits: Commits) -> None:
        self._database = database
        self._now = now
        self._commits = commits

    def find(self, address_id: str) -> FireAddress | None:
        """Return the address with this public id."""
        if not is_id(address_id):
            return None
        found = self._database.look(lambda connection: unreadable.rows(connection, _ONE, {"of_id": address_id}))
        return FireAddress(*found[0]) if found else None

    def of_task(self, tenant: str, task_id: str) -> FireAddress | None:
        """Return the address of a task."""
        return self._database.look(lambda connection: _of_task(connection, tenant, task_id))

    def add(self, address: FireAddress, entry: AuditEntry, *, renew: bool) -> None:
        """Store the address of a task; one that it has is replaced if it is to be renewed, and else refused.

        Raises TaskNotFound and Refused.
        """

        def work(connection: Connection) -> None:
            record = read.locked_record(connection, address.tenant, address.task_id)
            if record.run.state is State.CANCELLED and not record.run.gives_way:
                raise Refused(
                    f"{address.task_id} was cancelled: nothing would start it.",
                    argument="task_id",
                    remedy=remedies.ScheduleAnother(),
                )
            known = _of_task(connection, address.tenant, address.task_id)
            if known is not None and not renew:
                made = describe(known.made_at, record.task.timezone)
                raise Refused(
                    f"{known.task_id} has a fire address already, which {known.made_by} made on {made} and nobody can "
                    "read again. Renew it, and the old one ends.",
                    argument="renew",
                )
            connection.execute(_DELETE, {"of_task": address.task_id, "of_tenant": address.tenant})
            connection.execute(insert(fire_addresses), {name: getattr(address, name) for name in _NAMES})
            entries.store(connection, entry, self._now())

        self._database.write(work)

    def revoke(self, tenant: str, task_id: str, entry: AuditEntry) -> bool:
        """End the address of a task at once; False where it has none. Raises TaskNotFound."""

        def work(connection: Connection) -> bool:
            read.locked_record(connection, tenant, task_id)
            ended = connection.execute(_DELETE, {"of_task": task_id, "of_tenant": tenant}).rowcount == 1
            if ended:
                entries.store(connection, entry, self._now())
            return ended

        return self._database.write(work)

    def fire(self, address: FireAddress, signal: ReceivedSignal, *, via: str | None) -> Fired:
        """Start the task of an address, or end its wait; a call with the id of an earlier one does nothing.

        Raises NoSuchAddress for one that has ended, and Refused where the task may not start now.
        """

        def work(connection: Connection) -> Fired:
            found = _of_task(connection, address.tenant, address.task_id)
            return fire(connection, address, found, signal, via=via, clock=self._now)

        return self._commits.write(work)


def _of_task(connection: Connection, tenant: str, task_id: str) -> FireAddress | None:
    found = unreadable.rows(connection, _OF_TASK, {"of_task": task_id, "of_tenant": tenant})
    return FireAddress(*found[0]) if found else None
