"""PostgreSQL's trigram indexes, which find titles and reasons by a part of a word.

They need the extension pg_trgm, which a server may lack and a user may not be allowed to create. Without them a search
reads every row, and is cancelled when it takes too long; all else works the same.
"""

from __future__ import annotations

import logging

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

STATEMENTS = (
    "CREATE EXTENSION IF NOT EXISTS pg_trgm",
    "CREATE INDEX IF NOT EXISTS tasks_title_trigrams ON tasks USING gin (title_folded gin_trgm_ops)",
    """CREATE INDEX IF NOT EXISTS events_reason_trigrams ON events USING gin (lower(reason) gin_trgm_ops)
        WHERE reason IS NOT NULL""",
)
"""Condition of the index: most events have no reason, and cost nothing here."""

log = logging.getLogger(__name__)


def create(connection: Connection) -> None:
    """Create the indexes where the server can; log it where it cannot."""
    if connection.dialect.name != "postgresql":
        return
    try:
        with connection.begin_nested():
            for statement in STATEMENTS:
                connection.exec_driver_sql(statement)
    except DBAPIError as error:
        reason = str(error.orig).strip().partition("\n")[0]
        log.warning("searches read every row, because the extension pg_trgm is not available: %s", reason)
