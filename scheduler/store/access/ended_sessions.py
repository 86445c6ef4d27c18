"""Sessions of the admin page that were logged out: their cookies are refused until they would have ended anyway."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.schema.tables.access import ended_sessions
from sqlalchemy import Connection, bindparam, delete, select

_ONE = select(ended_sessions.c.session_id).where(ended_sessions.c.session_id == bindparam("wanted"))


class EndedAdminSessions:
    """The sessions that ended early, of all tenants, by their random ids."""

    def __init__(self, database: Database, now: Callable[[], datetime]) -> None:
        self._database = database
        self._now = now

    def add(self, session_id: str, ends_at: datetime) -> None:
        """End a session; `ends_at` is when its cookie ends by itself. Sessions whose time has passed are forgotten."""

        def work(connection: Connection) -> None:
            connection.execute(delete(ended_sessions).where(ended_sessions.c.ends_at <= self._now()))
            added = dialect_of(connection).insert(ended_sessions).on_conflict_do_nothing()
            connection.execute(added, {"session_id": session_id, "ends_at": ends_at})

        self._database.write(work)

    def has(self, session_id: str) -> bool:
        return self._database.look(
            lambda connection: connection.execute(_ONE, {"wanted": session_id}).first() is not None
        )
