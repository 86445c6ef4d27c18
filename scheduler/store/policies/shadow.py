"""The shadow policy of an installation: one at most, which is compared and never in force."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from duetime.scheduler.audit.entry import AuditEntry
from duetime.scheduler.rules.policies.shadow import ShadowPolicy
from duetime.scheduler.store.audit import entries
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.schema.rows import columns_of
from duetime.scheduler.store.schema.tables.policies import shadow_policies
from duetime.scheduler.task import Json
from sqlalchemy import Connection, delete, insert, select

_COLUMNS = columns_of(ShadowPolicy, shadow_policies)
_ONLY_ROW_KEY = {"id": 1}


class ShadowPolicies:
    """The shadow policy, with the audit entries of its changes."""

    def __init__(self, database: Database, now: Callable[[], datetime]) -> None:
        self._database = database
        self._now = now

    def get(self) -> ShadowPolicy | None:
        def work(connection: Connection) -> list[ShadowPolicy]:
            found = unreadable.values(connection, select(*_COLUMNS), ShadowPolicy, _COLUMNS)
            return [shadow for shadow, _ in found]

        return next(iter(self._database.look(work)), None)

    def set(self, content: Mapping[str, Json], act: AuditEntry) -> ShadowPolicy:
        """Store a shadow in place of any other."""

        def work(connection: Connection) -> ShadowPolicy:
            made = ShadowPolicy(content, self._now(), act.actor, act.via, act.reason)
            connection.execute(delete(shadow_policies))
            values = {column.name: getattr(made, column.name) for column in _COLUMNS}
            connection.execute(insert(shadow_policies).values(_ONLY_ROW_KEY | values))
            entries.store(connection, act, made.at)
            return made

        return self._database.write(work)

    def remove(self, act: AuditEntry) -> bool:
        """Remove the shadow; False when there is none."""

        def work(connection: Connection) -> bool:
            removed = connection.execute(delete(shadow_policies)).rowcount > 0
            if removed:
                entries.store(connection, act, self._now())
            return removed

        return self._database.write(work)
