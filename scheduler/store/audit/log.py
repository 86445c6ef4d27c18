"""The audit log of each tenant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

from duetime.scheduler.audit.entry import AuditEntry, AuditFilter, AuditPage
from duetime.scheduler.store.audit import entries
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.lists.event_list import behind_in_time
from duetime.scheduler.store.schema.tables.audit import audit_entries, audit_heads
from duetime.scheduler.store.schema.tables.events import events
from duetime.scheduler.store.schema.tables.pools import api_keys
from duetime.scheduler.store.schema.values import to_microseconds
from duetime.scheduler.store.sql.cursors import Cursors
from sqlalchemy import ColumnElement, Connection, bindparam, exists, or_, select

_KEY = (audit_entries.c.at, audit_entries.c.id)
_TENANT = bindparam("tenant", type_=audit_entries.c.tenant.type)
_IS_KNOWN = select(
    or_(*(exists().where(of.c.tenant == _TENANT) for of in (audit_heads, events, audit_entries)))  # what has a chain
)


class AuditLog:
    """Acts of callers that are no events of tasks."""

    def __init__(self, database: Database, now: Callable[[], datetime], cursors: Cursors) -> None:
        self._database = database
        self._now = now
        self._cursors = cursors

    def record(self, entry: AuditEntry) -> None:
        """Store an entry of this moment; what changes the database stores it in its own transaction instead."""
        self._database.write(lambda connection: entries.store(connection, entry, self._now()))

    def record_read(self, entry: AuditEntry) -> None:
        """Store the entry of a read; where nobody knows its tenant, in the log of the reader's own.

        So no mistyped name begins a chain.
        """

        def work(connection: Connection) -> None:
            known = entry.actor_tenant is None or connection.execute(_IS_KNOWN, {"tenant": entry.tenant}).scalar_one()
            entries.store(connection, entry if known else _of_own(entry), self._now())

        self._database.write(work)

    def knows(self, tenant: str) -> bool:
        """Whether anything of a tenant was ever recorded, or it has an API key."""
        with_keys = or_(_IS_KNOWN.scalar_subquery(), exists().where(api_keys.c.tenant == _TENANT))
        return self._database.look(
            lambda connection: bool(connection.execute(select(with_keys), {"tenant": tenant}).scalar_one())
        )

    def page(self, tenant: str, where: AuditFilter, *, limit: int, cursor: str | None = None) -> AuditPage:
        """Return a page of entries, newest first. Raises `InvalidArgument` for a cursor of another list."""
        of = ("audit", tenant, where)
        behind = self._cursors.read(cursor, of=of)
        statement = select(*entries.ENTRY_FIELDS).where(audit_entries.c.tenant == tenant, *_conditions(where))
        statement = behind_in_time(statement, _KEY, behind).limit(limit + 1)

        def work(connection: Connection) -> list[AuditEntry]:
            return [entry for entry, _ in unreadable.values(connection, statement, AuditEntry, entries.ENTRY_FIELDS)]

        found = self._database.look(work)
        if len(found) <= limit:
            return AuditPage(tuple(found))
        last = found[limit - 1]
        assert last.at is not None
        return AuditPage(tuple(found[:limit]), self._cursors.write([to_microseconds(last.at), last.id], of=of))


def _of_own(entry: AuditEntry) -> AuditEntry:
    """Return an entry as one of the actor's own tenant."""
    own = entry.actor_tenant or entry.tenant
    return replace(entry, tenant=own, actor_tenant=None, detail={"tenants": entry.tenant})


def _by(surface: str) -> ColumnElement[bool]:
    """Return whether `via` is the surface, or the surface and an address."""
    return (audit_entries.c.via == surface) | audit_entries.c.via.startswith(f"{surface} ", autoescape=True)


_MEANINGS: dict[str, Callable[[Any], ColumnElement[bool]]] = {
    "actor": lambda actor: audit_entries.c.actor == actor,
    "surface": _by,
    "kind": lambda kind: audit_entries.c.kind == kind,
    "subject": lambda subject: audit_entries.c.subject == subject,
    "since": lambda instant: audit_entries.c.at >= instant,
    "until": lambda instant: audit_entries.c.at < instant,
}


def _conditions(where: AuditFilter) -> list[ColumnElement[bool]]:
    given = ((meaning, getattr(where, name)) for name, meaning in _MEANINGS.items())
    return [meaning(value) for meaning, value in given if value is not None]
