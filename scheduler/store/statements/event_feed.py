"""Following the events of all tenants, so that subscribers can be told.

On SQLite ids rise in the order of commits. On PostgreSQL a transaction may commit after one with higher ids, and a
reader that remembers only the highest id would miss it. So events are followed in the order of their transactions
(`tx`, written by the server), and only as far as no older transaction is still open. Transactions are numbered for the
whole server: one that is known to be of another database can write no event here, and holds up nobody.
"""

from __future__ import annotations

from typing import Any

from duetime.scheduler.events import Event
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.rows import EVENT
from duetime.scheduler.store.schema.tables import events
from sqlalchemy import Connection, Select, func, select, text, tuple_

_OLDEST_OPEN = text(
    """(
    SELECT min(open.tx::text::bigint)
    FROM (
        SELECT pg_snapshot_xip(pg_current_snapshot()) AS tx
        UNION ALL SELECT pg_snapshot_xmax(pg_current_snapshot())
    ) AS open
    WHERE NOT EXISTS (
        SELECT FROM pg_stat_activity AS session
        WHERE session.backend_xid = open.tx::xid AND session.datname <> current_database()
    ))"""
)
"""The oldest transaction that may yet write an event here: what the snapshot has as open, else what begins after it.

One that has no session any more has just ended, and counts as open. `pg_stat_activity` shows a session's database and
transaction to every role.
"""


def latest(connection: Connection) -> int:
    return connection.execute(_closed(connection, select(events.c.id)).limit(1)).scalar() or 0


def _closed(connection: Connection, statement: Select[Any]) -> Select[Any]:
    """Return the statement over the events of finished transactions, last first."""
    if connection.dialect.name != "postgresql":
        return statement.order_by(events.c.id.desc())
    return statement.where(_finished()).order_by(events.c.tx.desc(), events.c.id.desc())


def _finished() -> Any:
    return events.c.tx < _OLDEST_OPEN


def since(connection: Connection, event_id: int, limit: int) -> list[Event]:
    statement = select(*EVENT)
    if connection.dialect.name == "postgresql":
        tx = select(events.c.tx).where(events.c.id == event_id).scalar_subquery()
        statement = statement.where(
            _finished(), tuple_(events.c.tx, events.c.id) > tuple_(func.coalesce(tx, 0), event_id)
        )
        statement = statement.order_by(events.c.tx, events.c.id)
    else:
        statement = statement.where(events.c.id > event_id).order_by(events.c.id)
    return [Event(*row) for row in unreadable.rows(connection, statement.limit(limit), {}, events.c.id)]
