"""What users are told: the inbox, and deliveries through other channels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from duetime.scheduler.store import cursors
from duetime.scheduler.store.database import Database
from duetime.scheduler.store.models import deliveries, inbox
from duetime.scheduler.store.rows import DELIVERY, MESSAGE
from duetime.scheduler.store.types import from_microseconds, to_microseconds
from duetime.scheduler.task import Delivery, DeliveryState, InboxMessage
from sqlalchemy import Connection, Select, bindparam, func, select, tuple_, update

_NEWEST_FIRST = (inbox.c.created_at.desc(), inbox.c.id.desc())
_UNREAD = select(*MESSAGE).where(inbox.c.read_at.is_(None)).order_by(*_NEWEST_FIRST)
_MENTION = update(inbox).where(inbox.c.id == bindparam("message"), inbox.c.mentioned_at.is_(None))

_NEXT_WAKE = select(func.min(deliveries.c.next_at)).where(deliveries.c.next_at.is_not(None))
_DUE = (
    select(*DELIVERY, *MESSAGE)
    .select_from(deliveries.join(inbox, inbox.c.run_id == deliveries.c.run_id))
    .where(deliveries.c.next_at <= bindparam("now"))
    .order_by(deliveries.c.next_at)
    .limit(bindparam("most"))
)
_TO_TAKE = (
    select(deliveries.c.id)
    .where(deliveries.c.id.in_(bindparam("ids", expanding=True)), deliveries.c.next_at <= bindparam("now"))
    .with_for_update(skip_locked=True)
)
_TAKE = (
    update(deliveries)
    .where(deliveries.c.id.in_(_TO_TAKE.scalar_subquery()))
    .values(next_at=bindparam("until"))
    .returning(deliveries.c.id)
)
_HOLD = (
    update(deliveries)
    .where(deliveries.c.id.in_(bindparam("ids", expanding=True)), deliveries.c.next_at.is_not(None))
    .values(next_at=bindparam("until"))
)


class Inbox:
    """The outcomes that one user of a tenant reads; one message for each run that ended in an outcome."""

    def __init__(self, database: Database, now: Callable[[], datetime]) -> None:
        self._database = database
        self._now = now

    def unread(self, tenant: str, user: str, *, limit: int = 20) -> list[InboxMessage]:
        """Return unread messages, newest first."""
        statement = _of(_UNREAD, tenant, user).limit(limit)
        return self._database.read(lambda connection: _messages(connection, statement))

    def page(
        self, tenant: str, user: str, *, limit: int, cursor: str | None = None
    ) -> tuple[list[InboxMessage], str | None]:
        """Return all messages, newest first, and the next page's cursor. Raises `InvalidArgument` for a foreign one."""
        of = ("inbox", tenant, user)
        statement = _of(select(*MESSAGE), tenant, user).order_by(*_NEWEST_FIRST).limit(limit + 1)
        if cursor:
            at, message_id = cursors.read(cursor, of=of)
            key = (inbox.c.created_at, inbox.c.id)
            last = tuple_(from_microseconds(int(at)), message_id, types=[column.type for column in key])
            statement = statement.where(tuple_(*key) < last)
        found = self._database.read(lambda connection: _messages(connection, statement))
        if len(found) <= limit:
            return found, None
        last_message = found[limit - 1]
        return found[:limit], cursors.write([to_microseconds(last_message.created_at), last_message.id], of=of)

    def mark_read(self, tenant: str, user: str, ids: Sequence[str] | None = None, *, task_id: str | None = None) -> int:
        """Mark these messages, or all (of a task), as read; returns how many were unread before."""
        unread = (inbox.c.tenant == tenant, inbox.c.user == user, inbox.c.read_at.is_(None))
        statement = update(inbox).where(*unread).values(read_at=self._now())
        if ids is not None:
            statement = statement.where(inbox.c.id.in_(list(ids)))
        if task_id is not None:
            statement = statement.where(inbox.c.task_id == task_id)
        return self._database.write(lambda connection: connection.execute(statement).rowcount)

    def unmentioned(self, tenant: str, user: str, *, limit: int = 5) -> list[InboxMessage]:
        """Return unread messages that no answer has mentioned yet, newest first, and mark them as mentioned.

        Each message is returned once, to one caller, whatever the number of processes that ask.
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


class Deliveries:
    """Telling users outcomes through channels; each with its own state and retries."""

    def __init__(self, database: Database, now: Callable[[], datetime]) -> None:
        self._database = database
        self._now = now

    def next_wake(self) -> datetime | None:
        """Return when the next delivery is due; None when none waits."""
        return self._database.look(lambda connection: connection.execute(_NEXT_WAKE).scalar())

    def due(self, *, limit: int) -> list[tuple[Delivery, InboxMessage]]:
        """Return deliveries that are due now, longest due first, each with the message to deliver."""
        due = {"now": self._now(), "most": limit}
        rows = self._database.read(lambda connection: connection.execute(_DUE, due).all())
        return [(Delivery(*row[: len(DELIVERY)]), InboxMessage(*row[len(DELIVERY) :])) for row in rows]

    def take(self, ids: Sequence[str], *, lease: timedelta) -> set[str]:
        """Take those of the deliveries that are still due and return them: for `lease` nobody else finds them due.

        Any number of processes may try; each delivery is taken by one.
        """
        now = self._now()
        values = {"ids": list(ids), "now": now, "until": now + lease}
        return self._database.write(lambda connection: set(connection.execute(_TAKE, values).scalars()), durable=False)

    def hold(self, ids: Sequence[str], *, lease: timedelta) -> None:
        """Keep taken deliveries for `lease` from now on, those that have not been settled."""
        values = {"ids": list(ids), "until": self._now() + lease}
        self._database.write(lambda connection: connection.execute(_HOLD, values), durable=False)

    def settle(
        self, delivery_id: str, attempts: int, *, delivered: bool, error: str | None, next_at: datetime | None
    ) -> bool:
        """Store how a try ended; False, and nothing written, when another has settled it since.

        `attempts` is the delivery's as it was read. Not delivered and no `next_at` means given up.
        """
        now = self._now()
        state = DeliveryState.DELIVERED if delivered else DeliveryState.PENDING if next_at else DeliveryState.FAILED
        statement = (
            update(deliveries)
            .where(deliveries.c.id == delivery_id, deliveries.c.attempts == attempts)
            .where(deliveries.c.state == DeliveryState.PENDING)
            .values(
                attempts=attempts + 1,
                state=state,
                error=error,
                delivered_at=now if delivered else None,
                next_at=None if delivered else next_at,
            )
        )
        return self._database.write(lambda connection: connection.execute(statement).rowcount) == 1
