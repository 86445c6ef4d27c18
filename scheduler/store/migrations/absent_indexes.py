"""Builds the indexes that a PostgreSQL database lacks, while others read and write: after an upgrade, by the models."""

from __future__ import annotations

import time

from duetime.scheduler.store.database.postgres import Postgres
from duetime.scheduler.store.migrations import trigrams
from duetime.scheduler.store.migrations.table_locks import Blocker, BlockersNotice, holders, unnoticed
from duetime.scheduler.store.migrations.upgrade import newer_in_words, revision
from duetime.scheduler.store.schema.base import Base
from sqlalchemy import Connection, Index, text
from sqlalchemy.schema import CreateIndex

BUILD_LOCK_ID = 0x696E6478  # "indx"
BUILD_CHECK_INTERVAL_S = 0.2

_VALID = text(
    "SELECT relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid"
    " WHERE indisvalid AND relnamespace = current_schema()::regnamespace"
)


def absent(connection: Connection) -> list[Index]:
    """Return the indexes of the models that are absent, or were left unfinished; unique ones never are.

    A newer schema may have dropped some of them, so that none of it is absent for this version.
    """
    if newer_in_words(revision(connection) or ""):
        return []
    valid = set(connection.execute(_VALID).scalars())
    found = (index for table in Base.metadata.sorted_tables for index in table.indexes if not index.unique)
    return sorted((index for index in found if index.name not in valid), key=lambda index: str(index.name))


def add(database: Postgres, waiting: BlockersNotice = unnoticed) -> list[str]:
    """Build what is missing, also the indexes for searches where the server can have them; return the new names.

    One process at a time does. Another one waits as long as it takes, and builds what that one has left. It polls: the
    build of an index waits for each statement that has begun, so also for one that waits for the lock.
    """
    known = list[int]()
    while True:
        with database.alone(BUILD_LOCK_ID, "indexes") as mine:
            if mine:
                found = database.read(absent)
                for index in found:
                    _build(database, index)
                return [*(str(index.name) for index in found), *trigrams.add(database)]
        pids = database.read(lambda connection: holders(connection, BUILD_LOCK_ID))
        if pids not in ([], known):
            known = pids
            waiting(Blocker.INDEXES, pids)
        time.sleep(BUILD_CHECK_INTERVAL_S)


def _build(database: Postgres, index: Index) -> None:
    """Build one index outside any transaction, however long those of others last."""
    unfinished = f"DROP INDEX CONCURRENTLY IF EXISTS {index.name}"

    def built(connection: Connection) -> None:
        statement = str(CreateIndex(index).compile(dialect=connection.dialect))
        concurrently = statement.replace("CREATE INDEX", "CREATE INDEX CONCURRENTLY", 1)
        for each in ("SET lock_timeout = 0", unfinished, concurrently, "RESET lock_timeout"):
            connection.exec_driver_sql(each)

    database.command(built)
