"""The locks of an upgrade on PostgreSQL: that of upgrades, then those of all tables at once, or none.

Migrations alter one table after another. A transaction of an old process may hold the second one and ask for the first.
It would wait for the upgrade, and the upgrade for it. PostgreSQL ends one of the two, and nothing says that it is the
upgrade.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from enum import StrEnum

from sqlalchemy import Connection, func, inspect, select, text
from sqlalchemy.exc import OperationalError

_PATIENCE_MS = 300
"""Below PostgreSQL's `deadlock_timeout` (1 s): the upgrade gives up before anyone is ended for a deadlock."""

_LONGEST_PAUSE_S = 0.2

_LOCK_NOT_AVAILABLE = "55P03"


NOTICE_AFTER_S = 1.0
"""Seconds that an upgrade waits before it says so."""

_USERS = text("""
    SELECT DISTINCT pid FROM pg_locks
    WHERE granted AND pid <> pg_backend_pid() AND relation IN (
        SELECT oid FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'
    ) AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    ORDER BY pid
""")

_UPGRADE_LOCK_ID = 0x64756574  # "duet": one process at a time looks after a schema

_HOLDERS = text("""
    SELECT pid FROM pg_locks
    WHERE granted AND locktype = 'advisory' AND classid = 0 AND objid = :lock_id AND objsubid = 1
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    ORDER BY pid
""")


class Blocker(StrEnum):
    """Kinds of what an upgrade waits for, as the end of a sentence that begins with `Waiting for`."""

    UPGRADE = "another upgrade of this database"
    SESSIONS = "sessions that use its tables"
    INDEXES = "another process that builds indexes"


BlockersNotice = Callable[[Blocker, list[int]], None]
"""Is called with the ids of the server's processes that hold up the upgrade, when they become known or change."""


def unnoticed(blocker: Blocker, pids: list[int]) -> None:
    """Notify nobody of what holds up an upgrade."""


def hold_upgrades(connection: Connection, waiting: BlockersNotice) -> None:
    """Keep other upgrades away until the transaction ends; wait for the one that continues as long as it takes."""
    if connection.execute(select(func.pg_try_advisory_xact_lock(_UPGRADE_LOCK_ID))).scalar_one():
        return
    waiting(Blocker.UPGRADE, holders(connection, _UPGRADE_LOCK_ID))
    connection.exec_driver_sql("SET LOCAL lock_timeout = 0")
    connection.execute(select(func.pg_advisory_xact_lock(_UPGRADE_LOCK_ID)))
    connection.exec_driver_sql("SET LOCAL lock_timeout TO DEFAULT")


def holders(connection: Connection, lock_id: int) -> list[int]:
    """Return the ids of the server's processes that hold an advisory lock."""
    return list(connection.execute(_HOLDERS, {"lock_id": lock_id}).scalars())


def lock_tables(connection: Connection, waiting: BlockersNotice) -> None:
    """Hold every table of the schema until the transaction ends; wait for those who use them as long as it takes.

    Each try gives all tables back that it got, so the others continue in between.
    """
    notice_at, known = time.monotonic() + NOTICE_AFTER_S, list[int]()
    names = inspect(connection).get_table_names()
    quoted = connection.dialect.identifier_preparer.quote
    statement = f"LOCK TABLE {', '.join(map(quoted, sorted(names)))} IN ACCESS EXCLUSIVE MODE"
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = {_PATIENCE_MS}")
    while not _got(connection, statement):
        if time.monotonic() >= notice_at and (users := [*connection.execute(_USERS).scalars()]) not in (known, []):
            waiting(Blocker.SESSIONS, known := users)
        time.sleep(random.uniform(0, _LONGEST_PAUSE_S))  # nosec B311 # noqa: S311 - two upgrades need not be unpredictable
    connection.exec_driver_sql("SET LOCAL lock_timeout TO DEFAULT")


def _got(connection: Connection, statement: str) -> bool:
    try:
        with connection.begin_nested():
            connection.exec_driver_sql(statement)
    except OperationalError as error:
        if getattr(error.orig, "sqlstate", None) != _LOCK_NOT_AVAILABLE:
            raise
        return False
    return True
