"""The state of a schema that is in use: its version, and the indexes that it lacks."""

from __future__ import annotations

from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.database.postgres import Postgres
from duetime.scheduler.store.migrations import absent_indexes, upgrade


class SchemaState:
    """Reads what `duetime doctor` reports of the schema."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def version(self) -> str:
        """Return the version, which is newer than HEAD_VERSION where newer code upgraded the database."""
        return self._database.read(upgrade.revision) or ""

    def absent_indexes(self) -> list[str]:
        """Return the names of indexes that are missing or unfinished; a file always has all of its own."""
        if not isinstance(self._database, Postgres):
            return []
        return [str(index.name) for index in self._database.read(absent_indexes.absent)]
