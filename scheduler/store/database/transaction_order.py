"""The order of commits after a restore: numbers of transactions belong to a PostgreSQL server, and a dump keeps them.

A new server may count from a lower number. So rows of the old one would look like those of open transactions. New rows
would come before them, in audit chains and in streams of changes. On any server, ids of lost events would be given
again.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.database.postgres import Postgres
from sqlalchemy import Connection, text

EVENT_ID_GAP_COUNT = 1_000_000_000
"""Ids of events that are left out after a restore: streams may know those of events that are lost.

A copy of an SQLite file leaves them out from the beginning, as nothing would show that it was restored.
"""

_ORDER_LOCK_ID = 0x74786F72  # "txor"
_XID_COUNT = 1 << 32
MAX_ROWS_LOOKED_AT = 1_000

log = logging.getLogger(__name__)

_OF_THIS_SERVER = f"xmin::text::bigint = tx % {_XID_COUNT}"
"""Whether a row is of the transaction that it names; a restore writes it in another one."""


_WRITER = f"""pg_snapshot_xmax(pg_current_snapshot())::text::bigint
    - mod(pg_snapshot_xmax(pg_current_snapshot())::text::bigint - xmin::text::bigint + {_XID_COUNT}, {_XID_COUNT})"""
"""The transaction that wrote a row, with its epoch: one of the last four billion."""


def _stranger(table: str) -> str:
    """Return whether the oldest rows of a table are of another server; those that were moved are below 0.

    A restore writes all rows before any of this server. Rows that somebody changed by hand have such rows before them.
    Where they are the oldest, rows of this server are older than the change.
    """
    columns, sorted_by = f"id, {_OF_THIS_SERVER} AS own, {_WRITER} AS writer", f"tx, id LIMIT {MAX_ROWS_LOOKED_AT}"
    oldest = f"SELECT {columns} FROM {table} WHERE tx >= 0 ORDER BY {sorted_by}"  # nosec B608 # noqa: S608 - names of this module
    newest, first = "max(id) FILTER (WHERE NOT own)", "min(id) FILTER (WHERE own)"
    return f"""(
        SELECT CASE WHEN other < coalesce(own, other + 1) THEN NOT EXISTS (
            SELECT FROM {table} WHERE tx >= 0 AND tx < found.written AND {_OF_THIS_SERVER}
        ) ELSE false END
        FROM (SELECT {newest} AS other, {first} AS own, max(writer) FILTER (WHERE NOT own) AS written
            FROM ({oldest}) AS oldest) AS found
    )"""  # nosec B608 # noqa: S608 - likewise


def _newest(table: str, progress: str) -> str:
    """Return SQL for the highest transaction number that a table has ever held, as two columns.

    The first is that of its rows. The second is that of the audit chain's `progress`, since retention may have deleted
    the newest rows. Progress does not count while the newest row was written by this server: then nothing was restored.
    Whoever moved it by hand is found by the check of the audit chain.
    """
    last = f"SELECT xmin, tx FROM {table} WHERE tx IS NOT NULL ORDER BY tx DESC LIMIT 1"  # nosec B608 # noqa: S608 - names of this module
    return f"""
        (SELECT max(tx) FROM {table} WHERE tx IS NOT NULL),
        (SELECT {progress} FROM audit_progress WHERE NOT EXISTS (SELECT FROM ({last}) AS last WHERE {_OF_THIS_SERVER}))
    """  # nosec B608 # noqa: S608 - likewise


_NEWEST = text(
    " ".join(
        (
            f"SELECT greatest({_newest('events', 'event_tx')}, {_newest('audit_entries', 'entry_tx')}),",
            "pg_snapshot_xmax(pg_current_snapshot())::text::bigint,",
            f"{_stranger('events')} OR {_stranger('audit_entries')}",
        )
    )
)
_PREPARE = text("SELECT set_config('lock_timeout', '0', true), set_config('enable_seqscan', 'on', true)")
_LOCK = text(f"SELECT pg_advisory_xact_lock({_ORDER_LOCK_ID})")
_MOVE = {
    table: text(f"""
        UPDATE {table} SET tx = tx - :by WHERE tx IS NOT NULL AND NOT (
            id > (SELECT coalesce(max(id), 0) FROM {table} WHERE tx >= :following)
            AND {_OF_THIS_SERVER}
        )
    """)  # nosec B608 # noqa: S608 - names of this module
    for table in ("events", "audit_entries")
}
"""A row that this server wrote already keeps its number: it is behind all old ones, and of the transaction it names."""

_MOVE_PROGRESS = text("""
    INSERT INTO audit_progress AS known (id, event_tx, event_id, entry_tx, entry_id) VALUES (1, -:by, 0, -:by, 0)
    ON CONFLICT (id) DO UPDATE SET
        event_tx = known.event_tx - CASE WHEN :event_stays THEN 0 ELSE :by END,
        entry_tx = known.entry_tx - CASE WHEN :entry_stays THEN 0 ELSE :by END
""")
_SEALED_HERE = text(f"""
    SELECT EXISTS (SELECT FROM events WHERE tx BETWEEN 0 AND event_tx AND id <= event_id AND {_OF_THIS_SERVER}),
        EXISTS (SELECT FROM audit_entries WHERE tx BETWEEN 0 AND entry_tx AND id <= entry_id AND {_OF_THIS_SERVER})
    FROM audit_progress
""")  # nosec B608 # noqa: S608 - names of this module
"""Whether a row that was sealed is of this server, and stays: code that did not notice the restore sealed it."""

_LEAVE_GAP = text("""
    SELECT setval('events_id_seq', last_value + :gap) FROM events_id_seq
    WHERE has_sequence_privilege('events_id_seq', 'UPDATE')
""")


class StoredNumbers(NamedTuple):
    """Numbers of transactions that are stored, and that of the server."""

    newest: int | None
    """The highest number that is stored."""
    following: int
    """The number of the server's next transaction."""

    stranger: bool
    """Whether a row that was not moved yet is of another server."""

    @property
    def restored(self) -> bool:
        return self.newest is not None and (self.stranger or self.newest >= self.following)


def repair(database: Database) -> bool:
    """Move stored numbers below those of this server if they are of a dump, and leave a gap; return whether they were.

    All keep their order. Several processes may call this at once, while others write: one moves, the others wait.
    """
    if not isinstance(database, Postgres) or not database.look(_found).restored:
        return False
    moved = database.write(_move)
    if moved:
        log.warning(
            "all old rows were written by other transactions than they name, as in a database restored from a dump: "
            "moved their numbers below those of this server; if nobody restored it, somebody changed these rows: "
            "`duetime audit verify` names the first one"
        )
    return moved


def _found(connection: Connection) -> StoredNumbers:
    return StoredNumbers(*connection.execute(_NEWEST).one())


def _move(connection: Connection) -> bool:
    connection.execute(_PREPARE)
    connection.execute(_LOCK)
    found = _found(connection)  # again: another process may have moved them
    if not found.restored or found.newest is None:
        return False
    given = {"by": found.newest + 1, "following": found.following}
    event_stays, entry_stays = connection.execute(_SEALED_HERE).one_or_none() or (False, False)
    for statement in _MOVE.values():
        connection.execute(statement, given)
    stays = {"event_stays": event_stays, "entry_stays": entry_stays}
    connection.execute(_MOVE_PROGRESS, {"by": given["by"], **stays})
    connection.execute(_LEAVE_GAP, {"gap": EVENT_ID_GAP_COUNT})
    return True
