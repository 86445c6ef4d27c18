"""Errors of the database drivers, as sentences for callers; the drivers' own words go to the log."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from duetime.scheduler.errors import StoreUnavailable, StoreUnwritable
from duetime.scheduler.runtime.failure_log import RepeatFilter
from sqlalchemy.exc import DBAPIError

log = logging.getLogger(__name__)
log.addFilter(RepeatFilter())


@contextmanager
def translated() -> Iterator[None]:
    """Translate driver errors of an unusable database into one sentence with a remedy.

    The driver's own words name hosts, ports and users, which callers must not see: they go to the log.
    """
    try:
        yield
    except Exception as error:
        original = error.orig if isinstance(error, DBAPIError) else error
        if not _is_unusable(original):
            raise
        log.warning("the database failed: %s: %s", type(original).__name__, " ".join(str(original).split()))
        sentence = _sentence(original)
        raise (StoreUnwritable if sentence in _UNWRITABLE else StoreUnavailable)(sentence) from error


_UNUSABLE = frozenset({"TimeoutError", "OperationalError", "InterfaceError"})

_BUSY = "The database is busy: another call holds what this one needs. Nothing was stored; try again."
_BUSY_FILE = "The database is busy: others have been writing for 5 seconds. Nothing was stored; try again."
_TOO_LONG = "The query took too long. Narrow the filter, or shorten the time range."
_FULL = "The disk is full. Nothing was stored; free some space and try again."
_READ_ONLY = "The database cannot be written. Nothing was stored; check its permissions and its disk."
_READ_ONLY_FILE = "The database file cannot be written. Nothing was stored; check its permissions and its disk."
_UNWRITABLE = frozenset({_FULL, _READ_ONLY, _READ_ONLY_FILE})

_BY_SQLSTATE: Final = {
    "40001": _BUSY,  # serialization_failure
    "40P01": _BUSY,  # deadlock_detected
    "55P03": _BUSY,  # lock_not_available
    "57014": _TOO_LONG,  # query_canceled
    "53100": _FULL,  # disk_full
    "25006": _READ_ONLY,  # read_only_sql_transaction
}
_BY_SQLITE_CODE: Final = {
    sqlite3.SQLITE_BUSY: _BUSY_FILE,
    sqlite3.SQLITE_LOCKED: _BUSY_FILE,
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_IOERR_SHMSIZE: _FULL,  # the first open makes the file `-shm`, also to read
    sqlite3.SQLITE_IOERR: "The disk of the database file failed. Nothing was stored; check that it works and has room.",
    sqlite3.SQLITE_READONLY: _READ_ONLY_FILE,
    sqlite3.SQLITE_CANTOPEN: "The database file cannot be opened. Check that its folder exists and may be written.",
    sqlite3.SQLITE_NOTADB: "The database file is not an SQLite database. Name another file, or restore a copy.",
    sqlite3.SQLITE_CORRUPT: "The database file is damaged. Restore a copy; nothing was stored.",
}
_PRIMARY_CODE: Final = 0xFF
"""The part of SQLite's extended codes that says what failed; the rest says where."""


def _is_unusable(error: object) -> bool:
    """Return whether the database failed; other errors of the driver are mistakes of this code."""
    names = {kind.__name__ for kind in type(error).__mro__}
    return not names.isdisjoint(_UNUSABLE) or type(error).__name__ == "DatabaseError" or _known(error) is not None


def _sentence(error: object) -> str:
    if any(kind.__name__ == "TimeoutError" for kind in type(error).__mro__):
        return "No connection to the database became free for 5 seconds. Nothing was stored; try again."
    return _known(error) or "The database cannot be reached, so nothing was read or stored; the log has the reason."


def _known(error: object) -> str | None:
    """Return the sentence for the code of an error; its words depend on the language of the server."""
    if isinstance(error, sqlite3.Error):
        code: int = getattr(error, "sqlite_errorcode", 0)
        return _BY_SQLITE_CODE.get(code) or _BY_SQLITE_CODE.get(code & _PRIMARY_CODE)
    return _BY_SQLSTATE.get(getattr(error, "sqlstate", None) or "")
