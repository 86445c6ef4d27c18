"""Statistics of tables, by which PostgreSQL plans, kept up to date while the tables grow fast."""

from __future__ import annotations

from functools import partial

from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.database.postgres import Postgres
from duetime.scheduler.store.schema.base import Base
from sqlalchemy import Connection

MIN_CHANGES = 1_000
"""Changes of rows below which the statistics of a table stay as they are."""

_OUTDATED = """
    SELECT tables.relname FROM pg_stat_user_tables AS tables JOIN pg_class ON pg_class.oid = tables.relid
    WHERE tables.schemaname = current_schema() AND pg_has_role(relowner, 'USAGE')
    AND n_mod_since_analyze > greatest(%(least)s, reltuples)
"""


class TableStatistics:
    """Has tables analysed that changed more than they had rows; the server notices that once a minute at best.

    A statement planned for a few rows reads all of an index for each run: with 30,000 runs, starts took 30 times as
    long. After an analysis all sessions plan again. SQLite plans without statistics.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def refresh(self) -> list[str]:
        """Analyse the tables whose statistics are outdated, and return their names."""
        if not isinstance(self._database, Postgres):
            return []
        outdated = self._database.look(_outdated)
        for name in outdated:
            self._database.write(partial(_analyse, table=name))
        return outdated


def _outdated(connection: Connection) -> list[str]:
    found = connection.exec_driver_sql(_OUTDATED, {"least": MIN_CHANGES}).scalars()
    return sorted(set(found) & set(Base.metadata.tables))


def _analyse(connection: Connection, table: str) -> None:
    connection.exec_driver_sql(f"ANALYZE (SKIP_LOCKED) {table}")
