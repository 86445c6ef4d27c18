"""PostgreSQL's trigram indexes, which find titles and reasons by a part of a word.

They need the extension pg_trgm, which a server may lack and a user may not be allowed to create. Without them a search
reads every row, and is cancelled when it takes too long; all else works the same. `duetime migrate` adds them later.
"""

from __future__ import annotations

import logging

from duetime.scheduler.store.database.postgres import Postgres
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

EXTENSION = "pg_trgm"
INDEXES = {
    "tasks_title_trigrams": "tasks USING gin (title_folded gin_trgm_ops)",
    "events_reason_trigrams": "events USING gin (lower(reason) gin_trgm_ops) WHERE reason IS NOT NULL",
}
"""Condition of the second: most events have no reason, and cost nothing here."""

_VALID = text("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(:name)")
_HAS_ALL = text("SELECT cardinality(show_trgm(:word)) = 4")
"""Whether a word of three letters has all of its trigrams: itself, two of its begin and one of its end."""

_AVAILABLE = text("SELECT count(*) FROM pg_available_extensions WHERE name = :name")

log = logging.getLogger(__name__)


def create(connection: Connection) -> None:
    """Create the indexes where the server can; log it where it cannot."""
    if connection.dialect.name != "postgresql":
        return
    try:
        with connection.begin_nested():
            connection.exec_driver_sql(f"CREATE EXTENSION IF NOT EXISTS {EXTENSION}")
            for name, what in INDEXES.items():
                connection.exec_driver_sql(f"CREATE INDEX IF NOT EXISTS {name} ON {what}")
    except DBAPIError as error:
        log.warning(
            "searches read every row, because the extension %s is not available: %s", EXTENSION, _first_line(error)
        )


def missing(connection: Connection) -> list[str]:
    """Return the indexes that are absent, or were left unfinished."""
    return [name for name in INDEXES if not connection.execute(_VALID, {"name": name}).scalar()]


def state(connection: Connection) -> tuple[bool, bool]:
    """Return whether the indexes exist, and whether this server can have them."""
    return not missing(connection), bool(connection.execute(_AVAILABLE, {"name": EXTENSION}).scalar())


def knows_letters(connection: Connection, word: str = "àßж") -> bool:
    """Whether the extension takes these three characters for letters: where LC_CTYPE is C, only those of ASCII."""
    return bool(connection.scalar(_HAS_ALL, {"word": word}))


def add(database: Postgres) -> list[str]:
    """Create the indexes that are missing, while others read and write; return the new ones."""
    absent = database.read(missing)
    if not absent:
        return []
    try:
        _alone(database, f"CREATE EXTENSION IF NOT EXISTS {EXTENSION}")
        for name in absent:
            _alone(database, f"DROP INDEX IF EXISTS {name}")  # an unfinished one
            _alone(database, f"CREATE INDEX CONCURRENTLY {name} ON {INDEXES[name]}")
    except DBAPIError as error:
        log.warning("searches read every row, because their indexes cannot be created: %s", _first_line(error))
        return []
    return absent


def _alone(database: Postgres, statement: str) -> None:
    """Run a statement outside any transaction."""
    database.command(lambda connection: connection.exec_driver_sql(statement))


def _first_line(error: DBAPIError) -> str:
    return str(error.orig).strip().partition("\n")[0]
