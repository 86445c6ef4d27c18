"""Versions of the policy, shared by all tenants. A change is a new version; writers take turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from duetime.scheduler.audit.entry import AuditEntry
from duetime.scheduler.rules.policies.policy import PolicyVersion
from duetime.scheduler.store.audit import entries
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.policies.shadow import ShadowPolicies
from duetime.scheduler.store.schema.rows import columns_of
from duetime.scheduler.store.schema.tables.policies import NEWEST_POLICY, policies
from duetime.scheduler.task import Json
from sqlalchemy import Connection, Select, insert, select

_COLUMNS = columns_of(PolicyVersion, policies)
_NEWEST_FIRST = select(*_COLUMNS).order_by(policies.c.version.desc())
_CHANGE_LOCK_ID = 0x706F6C69  # "poli"


class PolicyVersions:
    """The versions of the policy of an installation."""

    def __init__(self, database: Database, now: Callable[[], datetime]) -> None:
        self._database = database
        self._now = now
        self.shadow = ShadowPolicies(database, now)

    def version(self) -> int:
        """Return the newest version; 0 before the first."""
        return self._database.look(_version)

    def newest(self, limit: int) -> list[PolicyVersion]:
        """Return the newest versions, the one in force first."""
        statement = _NEWEST_FIRST.limit(limit)
        return self._database.look(lambda connection: _read(connection, statement))

    def get(self, version: int) -> PolicyVersion | None:
        statement = _NEWEST_FIRST.where(policies.c.version == version)
        return next(iter(self._database.look(lambda connection: _read(connection, statement))), None)

    def add(self, content: Mapping[str, Json], act: AuditEntry, *, based_on: int) -> PolicyVersion | None:
        """Store the next version with the audit entry of the act; None unless it is based on the version in force."""

        def work(connection: Connection) -> PolicyVersion | None:
            dialect_of(connection).wait_for_lock(connection, _CHANGE_LOCK_ID)
            if _version(connection) != based_on:
                return None
            now = self._now()
            made = PolicyVersion(based_on + 1, content, now, act.actor, act.via, act.reason)
            values = {column.name: getattr(made, column.name) for column in _COLUMNS}
            connection.execute(insert(policies).values(values))
            entries.store(connection, act, now)
            return made

        return self._database.write(work)


def _version(connection: Connection) -> int:
    newest: int = connection.execute(NEWEST_POLICY).scalar_one()
    return newest


def _read(connection: Connection, statement: Select[Any]) -> list[PolicyVersion]:
    return [found for found, _ in unreadable.values(connection, statement, PolicyVersion, _COLUMNS)]
