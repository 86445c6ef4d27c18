"""SQLite's index of texts: which events name a task's title, and which give a reason, by trigrams.

It is derived from tasks and events, and filled behind them in batches. No write waits for it, and a file can be used
without it. `search_position` is the last event in it; events after that one are read. Rows are never removed, since
each match is compared with the text as it is now.

Two blanks follow each text, so that each of its characters begins a trigram. Words of one or two characters are looked
up by the trigrams that begin with them, which `search_title_terms` and `search_reason_terms` list.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Sequence

from sqlalchemy import Connection, Row, text
from sqlalchemy.exc import OperationalError

MODULE = "fts5"
MIN_SQLITE_VERSION = (3, 34)
"""The first SQLite whose full-text index has the trigram tokenizer."""

_OPTIONS = "content='', columnsize=0, detail=none, tokenize='trigram case_sensitive 1'"
_TABLES = (  # those of an index without the blanks go; the last one shows whether all are there
    *(f"DROP TABLE IF EXISTS {name}" for name in ("search_titles", "search_reasons", "search_position")),
    f"CREATE VIRTUAL TABLE IF NOT EXISTS search_titles USING {MODULE}(words, {_OPTIONS})",
    f"CREATE VIRTUAL TABLE IF NOT EXISTS search_reasons USING {MODULE}(words, {_OPTIONS})",
    "CREATE TABLE IF NOT EXISTS search_position (id INTEGER PRIMARY KEY CHECK (id = 1), event_id INTEGER NOT NULL)",
    "INSERT OR IGNORE INTO search_position VALUES (1, 0)",
    "CREATE VIRTUAL TABLE IF NOT EXISTS search_title_terms USING fts5vocab(search_titles, row)",
    "CREATE VIRTUAL TABLE IF NOT EXISTS search_reason_terms USING fts5vocab(search_reasons, row)",
)
_HAS_MODULE = text("SELECT count(*) FROM pragma_module_list WHERE name = :module")
_CAN_BE_USED = text(
    """SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'search_reason_terms')
    AND EXISTS (SELECT 1 FROM pragma_module_list WHERE name = :module)"""
)
_POSITION = text("SELECT event_id, (SELECT coalesce(max(id), 0) FROM events) AS newest FROM search_position")
_LAST_OF_BATCH = text("SELECT max(id) FROM (SELECT id FROM events WHERE id > :after ORDER BY id LIMIT :most)")
_TITLES = """INSERT INTO search_titles (rowid, words)
    SELECT events.id, tasks.title_folded || '  ' FROM events JOIN tasks ON tasks.id = events.task_id
    WHERE {these} AND (events.kind = 'created' OR instr(events."after", '"title"') > 0)"""
_REASONS = """INSERT INTO search_reasons (rowid, words)
    SELECT id, lower(reason) || '  ' FROM events WHERE {these} AND reason IS NOT NULL"""
_NEXT = "events.id > :after AND events.id <= :last"
_PASSED = "events.id IN (SELECT value FROM json_each(:ids)) AND events.id <= (SELECT event_id FROM search_position)"
_ADD_NEXT = (
    *(text(each.format(these=_NEXT)) for each in (_TITLES, _REASONS)),
    text("UPDATE search_position SET event_id = :last"),
)
_ADD_PASSED = tuple(text(each.format(these=_PASSED)) for each in (_TITLES, _REASONS))

log = logging.getLogger(__name__)


def is_supported(connection: Connection) -> bool:
    """Whether the SQLite of this Python has what the index needs."""
    if sqlite3.sqlite_version_info < MIN_SQLITE_VERSION:
        return False
    return bool(connection.execute(_HAS_MODULE, {"module": MODULE}).scalar())


def position(connection: Connection) -> Row[tuple[int, int]] | None:
    """Return the last event in the index, and the newest event; None where there is no index that can be used."""
    too_old = sqlite3.sqlite_version_info < MIN_SQLITE_VERSION
    if too_old or not connection.execute(_CAN_BE_USED, {"module": MODULE}).scalar():
        return None
    return connection.execute(_POSITION).one_or_none()


def state(connection: Connection) -> tuple[bool, bool]:
    """Return whether the index can be used, and whether this SQLite can have it."""
    return position(connection) is not None, is_supported(connection)


def create(connection: Connection) -> bool:
    """Create the index, empty; False where this SQLite cannot."""
    if not is_supported(connection):
        return False
    try:
        for statement in _TABLES:
            connection.exec_driver_sql(statement)
    except OperationalError as error:
        log.warning("searches read every row, because SQLite cannot create an index of texts: %s", error.orig)
        return False
    return True


def advance(connection: Connection, most: int) -> bool:
    """Add the texts of the next `most` events; return whether that many were left."""
    found = connection.execute(_POSITION).one()
    last = connection.execute(_LAST_OF_BATCH, {"after": found.event_id, "most": most}).scalar()
    if last is None:
        return False
    for statement in _ADD_NEXT:
        connection.execute(statement, {"after": found.event_id, "last": last})
    return bool(found.newest > last)


def add_passed(connection: Connection, event_ids: Sequence[int]) -> None:
    """Add these events where the index has passed them: they may have been deleted when it was made.

    An event that it has already stands in it once.
    """
    if position(connection) is not None:
        for statement in _ADD_PASSED:
            connection.execute(statement, {"ids": json.dumps(list(event_ids))})
