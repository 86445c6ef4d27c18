"""The inbox: the outcomes that a user of a tenant reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from duetime.scheduler.ids import is_id
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.lists.event_list import behind_in_time
from duetime.scheduler.store.schema.rows import MESSAGE_FIELDS
from duetime.scheduler.store.schema.tables.deliveries import inbox
from duetime.scheduler.store.schema.values import to_microseconds
from duetime.scheduler.store.sql.cursors import Cursors
from duetime.scheduler.store.text_index.text_search import ESCAPE, escaped
from duetime.scheduler.task import InboxMessage, State
from sqlalchemy import ColumnElement, Connection, Integer, Select, Text, bindparam, case, func, select, update

QUIET_WINDOW = timedelta(days=1)
_PLACE = (inbox.c.created_at, inbox.c.id)
_NEWEST_FIRST = (inbox.c.created_at.desc(), inbox.c.id.desc())
_UNREAD = select(*MESSAGE_FIELDS).where(inbox.c.read_at.is_(None)).order_by(*_NEWEST_FIRST)
_SUCCEEDED_LAST = case((inbox.c.state == State.SUCCEEDED, 1), else_=0)


class Inbox:
    """The outcomes that one user of a tenant reads; one message for each run that ended in an outcome."""

    def __init__(self, database: Database, now: Callable[[], datetime], cursors: Cursors) -> None:
        self._database = database
        self._now = now
        self._cursors = cursors

    def unread(
        self, tenant: str, user: str, *, limit: int = 20, run_id: str | None = None, of: str | None = None
    ) -> list[InboxMessage]:
        """Return unread messages, newest first: of a run, or `of` a task, or those whose own ids begin so."""
        if of is not None and not is_id(of):
            return []
        values: dict[str, object] = {"tenant": tenant, "user": user, "limit": limit}
        values |= {"run_id": run_id} if run_id is not None else {}
        values |= {"of": of, "beginning": f"{escaped(of)}%"} if of is not None else {}
        statement = _unread(of_run=run_id is not None, of_task=of is not None)
        return self._database.look(lambda connection: _messages(connection, statement, values))

    def page(
        self, tenant: str, user: str, *, limit: int, of: str | None = None, cursor: str | None = None
    ) -> tuple[list[InboxMessage], str | None]:
        """Return unread messages as `unread` does, those behind a cursor, and the cursor of the next page.

        Raises `InvalidArgument` for a cursor of another list.
        """
        listed = ("inbox", tenant, user, of)
        behind = self._cursors.read(cursor, of=listed)
        if of is not None and not is_id(of):
            return [], None
        statement = _of(_UNREAD.order_by(None), tenant, user)
        if of is not None:
            statement = statement.where((inbox.c.task_id == of) | inbox.c.id.like(f"{escaped(of)}%", escape=ESCAPE))
        statement = behind_in_time(statement, _PLACE, behind).limit(limit + 1)
        found = self._database.look(lambda connection: _messages(connection, statement))
        if len(found) <= limit:
            return found, None
        last = found[limit - 1]
        return found[:limit], self._cursors.write([to_microseconds(last.created_at), last.id], of=listed)

    def has(self, tenant: str, user: str, beginning: str) -> bool:
        """Whether the user has a message, read or not, whose id begins so."""
        begins = inbox.c.id.like(f"{escaped(beginning)}%", escape=ESCAPE)
        statement = _of(select(inbox.c.id).where(begins), tenant, user).limit(1)
        return is_id(beginning) and self._database.look(
            lambda connection: connection.execute(statement).first() is not None
        )

    def of_runs(self, run_ids: Sequence[str]) -> list[InboxMessage]:
        """Return the messages of these runs, of all tenants, for change notifications."""
        statement = select(*MESSAGE_FIELDS).where(inbox.c.run_id.in_(list(run_ids))).order_by(*_NEWEST_FIRST)
        return self._database.look(lambda connection: _messages(connection, statement))

    def mark_read(self, tenant: str, user: str, ids: Sequence[str] | None = None, *, task_id: str | None = None) -> int:
        """Mark these messages, or all (of a task), as read; return how many were unread."""
        unread = (inbox.c.tenant == tenant, inbox.c.user == user, inbox.c.read_at.is_(None))
        statement = update(inbox).where(*unread).values(read_at=self._now())
        if ids is not None:
            statement = statement.where(inbox.c.id.in_(list(filter(is_id, ids))))
        if task_id is not None and not is_id(task_id):
            return 0
        if task_id is not None:
            statement = statement.where(inbox.c.task_id == task_id)
        return self._database.write(lambda connection: connection.execute(statement).rowcount)

    def mark_unread(self, tenant: str, user: str, task_id: str, *, since: datetime) -> int:
        """Mark the messages of a task that were read since then as unread again; return how many."""
        if not is_id(task_id):
            return 0
        read = (inbox.c.tenant == tenant, inbox.c.user == user, inbox.c.task_id == task_id, inbox.c.read_at >= since)
        statement = update(inbox).where(*read).values(read_at=None)
        return self._database.write(lambda connection: connection.execute(statement).rowcount)

    def quiet_count(self, tenant: str, user: str, *, most: int) -> int:
        """Return how many outcomes of the last day the user was not notified of, counted up to `most`."""
        recent = inbox.c.quiet, inbox.c.created_at > self._now() - QUIET_WINDOW
        counted = _of(select(inbox.c.id).where(*recent), tenant, user).limit(most).subquery()
        statement = select(func.count()).select_from(counted)
        return int(self._database.look(lambda connection: connection.execute(statement).scalar_one()))

    def missed(self, tenant: str, user: str, *, limit: int, most: int) -> tuple[list[InboxMessage], int]:
        """Return unread messages, failures first, then newest first; and how many are unread, counted up to `most`."""
        first = _of(_UNREAD.order_by(None), tenant, user).order_by(_SUCCEEDED_LAST, *_NEWEST_FIRST).limit(limit)
        counted = _of(select(inbox.c.id).where(inbox.c.read_at.is_(None)), tenant, user).limit(most).subquery()

        def work(connection: Connection) -> tuple[list[InboxMessage], int]:
            found = _messages(connection, first)
            total = connection.execute(select(func.count()).select_from(counted)).scalar_one() if found else 0
            return found, total

        return self._database.read(work)


def _of(statement: Select[Any], tenant: str | ColumnElement[str], user: str | ColumnElement[str]) -> Select[Any]:
    return statement.where(inbox.c.tenant == tenant, inbox.c.user == user)


@cache
def _unread(*, of_run: bool, of_task: bool) -> Select[Any]:
    """Return a statement with parameters: to build one for each call took as long as to run it."""
    statement = _of(_UNREAD, bindparam("tenant", type_=Text()), bindparam("user", type_=Text())).limit(
        bindparam("limit", type_=Integer())
    )
    if of_run:
        statement = statement.where(inbox.c.run_id == bindparam("run_id"))
    if of_task:
        begins = inbox.c.id.like(bindparam("beginning"), escape=ESCAPE)
        statement = statement.where((inbox.c.task_id == bindparam("of")) | begins)
    return statement


def _messages(
    connection: Connection, statement: Select[Any], values: Mapping[str, object] | None = None
) -> list[InboxMessage]:
    return [message for message, _ in unreadable.values(connection, statement, InboxMessage, MESSAGE_FIELDS, values)]
