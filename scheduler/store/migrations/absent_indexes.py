"""Builds the indexes that a PostgreSQL database lacks, while others read and write: after an upgrade, by the models."""

from __future__ import annotations

from duetime.scheduler.store.database.postgres import Postgres
from duetime.scheduler.store.migrations import trigrams
from duetime.scheduler.store.schema.base import Base
from sqlalchemy import Connection, Index, text
from sqlalchemy.schema import CreateIndex

_BUILD_LOCK_ID = 0x696E6478  # "indx"

_VALID = text(
    "SELECT relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid"
    " WHERE indisvalid AND relnamespace = current_schema()::regnamespace"
)


def absent(connection: Connection) -> list[Index]:
    """Return the indexes of the models that are absent, or were left unfinished; unique ones never are."""
    valid = set(connection.execute(_VALID).scalars())
    found = (index for table in Base.metadata.sorted_tables for index in table.indexes if not index.unique)
    return sorted((index for index in found if index.name not in valid), key=lambda index: str(index.name))


def add(database: Postgres) -> list[str]:
    """Build what is missing, also the indexes for searches where the server can have them; return the new names.

    One process at a time does, and another one that asks at the same time builds nothing.
    """
    with database.alone(_BUILD_LOCK_ID, "indexes") as mine:
        if not mine:
            return []
        found = database.read(absent)
        for index in found:
            _build(database, index)
        return [*(str(index.name) for index in found), *trigrams.add(database)]


def _build(database: Postgres, index: Index) -> None:
    """Build one index outside any transaction, however long those of others last."""
    unfinished = f"DROP INDEX CONCURRENTLY IF EXISTS {index.name}"

    def built(connection: Connection) -> None:
        statement = str(CreateIndex(index).compile(dialect=connection.dialect))
        concurrently = statement.replace("CREATE INDEX", "CREATE INDEX CONCURRENTLY", 1)
        for each in ("SET lock_timeout = 0", unfinished, concurrently, "RESET lock_timeout"):
            connection.exec_driver_sql(each)

    database.command(built)
