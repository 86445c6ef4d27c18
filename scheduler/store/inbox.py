"""The inbox: the outcomes that a user of a tenant reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.schema.rows import MESSAGE
from duetime.scheduler.store.schema.tables import inbox
from duetime.scheduler.task import InboxMessage
from sqlalchemy import Connection, Select, bindparam, select, update

_NEWEST_FIRST = (inbox.c.created_at.desc(), inbox.c.id.desc())
_UNREAD = select(*MESSAGE).where(inbox.c.read_at.is_(None)).order_by(*_NEWEST_FIRST)
_MENTION = update(inbox).where(inbox.c.id == bindparam("message"), inbox.c.mentioned_at.is_(None))


class Inbox:
    """The outcomes that one user of a tenant reads; one message for each run that ended in an outcome."""

    def __init__(self, database: Database, now: Callable[[], datetime]) -> None:
        self._database = database
        self._now = now

    def unread(self, tenant: str, user: str, *, limit: int = 20) -> list[InboxMessage]:
        """Return unread messages, newest first."""
        statement = _of(_UNREAD, tenant, user).limit(limit)
        return self._database.read(lambda connection: _messages(connection, statement))

    def mark_read(self, tenant: str, user: str, ids: Sequence[str] | None = None, *, task_id: str | None = None) -> int:
        """Mark these messages, or all (of a task), as read; return how many were unread."""
        unread = (inbox.c.tenant == tenant, inbox.c.user == user, inbox.c.read_at.is_(None))
        statement = update(inbox).where(*unread).values(read_at=self._now())
        if ids is not None:
            statement = statement.where(inbox.c.id.in_(list(ids)))
        if task_id is not None:
            statement = statement.where(inbox.c.task_id == task_id)
        return self._database.write(lambda connection: connection.execute(statement).rowcount)

    def unmentioned(self, tenant: str, user: str, *, limit: int = 5) -> list[InboxMessage]:
        """Return unread messages that no answer has mentioned, newest first, and mark them as mentioned.

        Each message is returned once, to one caller, for any number of processes.
        """
        statement = _of(_UNREAD, tenant, user).where(inbox.c.mentioned_at.is_(None)).limit(limit)
        if not self._database.read(lambda connection: connection.execute(statement).first()):
            return []

        def work(connection: Connection) -> list[InboxMessage]:
            found = _messages(connection, statement.with_for_update(skip_locked=True))
            if found:
                connection.execute(_MENTION.values(mentioned_at=self._now()), [{"message": it.id} for it in found])
            return found

        return self._database.write(work)


def _of(statement: Select[Any], tenant: str, user: str) -> Select[Any]:
    return statement.where(inbox.c.tenant == tenant, inbox.c.user == user)


def _messages(connection: Connection, statement: Select[Any]) -> list[InboxMessage]:
    return [InboxMessage(*row) for row in connection.execute(statement)]
