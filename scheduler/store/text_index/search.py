"""The indexes that searches of titles and reasons use, kept apart from the schema: a database works without them."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.database.postgres import Postgres
from duetime.scheduler.store.migrations import trigrams
from duetime.scheduler.store.text_index import sqlite_index
from sqlalchemy import Connection

MAX_EVENTS_INDEXED = 1_000
"""Events added to SQLite's index in one transaction: a writer waits for a few milliseconds."""


class SearchState(StrEnum):
    """Ways in which searches find texts."""

    INDEXED = "indexed"
    MISSING = "missing"  # every row is read, until the index is made
    UNSUPPORTED = "unsupported"  # every row is read: this server, or this SQLite, has no such index


class Search:
    """The indexes of texts. On PostgreSQL transactions keep them; on SQLite the runner does, behind the events."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._on_server = isinstance(database, Postgres)
        self._supported = not self._on_server

    @property
    def needs_advance(self) -> bool:
        """Whether `advance` has anything to do on this database, now or later."""
        return self._supported

    def advance(self) -> bool:
        """Add the next events to SQLite's index, and create it first; return whether more are left."""
        if not self._supported:
            return False
        position = self._database.look(sqlite_index.position)
        if position is None:
            self._supported = self._database.write(sqlite_index.create, durable=False)
            return self._supported
        if position.event_id >= position.newest:
            return False
        return self._database.write(
            lambda connection: sqlite_index.advance(connection, MAX_EVENTS_INDEXED), durable=False
        )

    def state(self) -> SearchState:
        look: Callable[[Connection], tuple[bool, bool]] = trigrams.state if self._on_server else sqlite_index.state
        exists, possible = self._database.read(look)
        if exists:
            return SearchState.INDEXED
        return SearchState.MISSING if possible else SearchState.UNSUPPORTED

    def knows_letters(self) -> bool:
        """Whether an index that exists also finds words in other letters than a to z."""
        return not self._on_server or self._database.look(trigrams.knows_letters)
