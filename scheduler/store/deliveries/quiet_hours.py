"""The quiet hours that users set for themselves, as text: a row for each user who has some, or who wants none."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from duetime.scheduler.audit.entry import AuditEntry
from duetime.scheduler.store.audit import entries
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.deliveries.deliveries import IS_HELD
from duetime.scheduler.store.schema.rows import columns_of
from duetime.scheduler.store.schema.tables.deliveries import deliveries, inbox, quiet_hours
from sqlalchemy import ColumnElement, Connection, bindparam, delete, insert, null, select, update


@dataclass(frozen=True, slots=True)
class StoredQuietHours:
    """The quiet hours of one user: `hours` is their text with its zone, or `none`."""

    tenant: str
    user: str
    hours: str
    set_at: datetime
    set_by: str


_COLUMNS: Final = columns_of(StoredQuietHours, quiet_hours)
_OF_SOME: Final = select(quiet_hours.c.tenant, quiet_hours.c.user, quiet_hours.c.hours).where(
    quiet_hours.c.tenant.in_(bindparam("tenants", expanding=True)),
    quiet_hours.c.user.in_(bindparam("users", expanding=True)),
)
_OF_USER: Final = (
    select(inbox.c.run_id)
    .where(inbox.c.tenant == bindparam("of_tenant"), inbox.c.user == bindparam("of_user"))
    .where(inbox.c.run_id == deliveries.c.run_id)
    .correlate(deliveries)
)
_RELEASE: Final = (
    update(deliveries)
    .where(deliveries.c.tenant == bindparam("of_tenant"), IS_HELD, _OF_USER.exists())
    .where(deliveries.c.next_at > bindparam("at"))
    .values(next_at=bindparam("at"), held_until=null())
)


class UserQuietHours:
    """The quiet hours of users. A change also lets the deliveries that wait for the old end be looked at again now."""

    def __init__(self, database: Database, now: Callable[[], datetime]) -> None:
        self._database = database
        self._now = now

    def get(self, tenant: str, user: str) -> StoredQuietHours | None:
        """Return what a user has set; None where nothing was."""
        statement = select(*_COLUMNS).where(*_is(tenant, user))
        rows = self._database.look(lambda connection: unreadable.rows(connection, statement, {}))
        return next((StoredQuietHours(*row) for row in rows), None)

    def all(self, tenant: str | None = None) -> list[StoredQuietHours]:
        """Return what the users of one tenant have set, or those of all."""
        statement = select(*_COLUMNS).order_by(quiet_hours.c.tenant, quiet_hours.c.user)
        statement = statement if tenant is None else statement.where(quiet_hours.c.tenant == tenant)
        rows = self._database.look(lambda connection: unreadable.rows(connection, statement, {}))
        return [StoredQuietHours(*row) for row in rows]

    def texts(self, users: Collection[tuple[str, str]]) -> Mapping[tuple[str, str], str]:
        """Return what those of the users (each with the tenant) have set who have set something."""
        if not users:
            return {}
        wanted = {"tenants": sorted({tenant for tenant, _ in users}), "users": sorted({user for _, user in users})}
        rows = self._database.look(lambda connection: unreadable.rows(connection, _OF_SOME, wanted))
        return {(tenant, user): text for tenant, user, text in rows if (tenant, user) in users}

    def set(self, tenant: str, user: str, hours: str, act: AuditEntry) -> StoredQuietHours:
        """Store the hours of a user in place of earlier ones, with the audit entry of the act."""
        made = StoredQuietHours(tenant, user, hours, self._now(), act.actor)

        def work(connection: Connection) -> None:
            connection.execute(delete(quiet_hours).where(*_is(tenant, user)))
            connection.execute(
                insert(quiet_hours).values({column.name: getattr(made, column.name) for column in _COLUMNS})
            )
            self._changed(connection, tenant, user, act)

        self._database.write(work)
        return made

    def clear(self, tenant: str, user: str, act: AuditEntry) -> bool:
        """Forget what a user has set, so that the settings count again; False, and nothing written, without any."""

        def work(connection: Connection) -> bool:
            if not connection.execute(delete(quiet_hours).where(*_is(tenant, user))).rowcount:
                return False
            self._changed(connection, tenant, user, act)
            return True

        return self._database.write(work)

    def _changed(self, connection: Connection, tenant: str, user: str, act: AuditEntry) -> None:
        now = self._now()
        connection.execute(_RELEASE, {"of_tenant": tenant, "of_user": user, "at": now})
        entries.store(connection, act, now)


def _is(tenant: str, user: str) -> tuple[ColumnElement[bool], ...]:
    return quiet_hours.c.tenant == tenant, quiet_hours.c.user == user
