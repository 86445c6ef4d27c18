"""Errors of the database drivers, as sentences for callers; the drivers' own words go to the log."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from duetime.scheduler.errors import StoreUnavailable, StoreUnwritable
from duetime.scheduler.runtime.repeat_filter import RepeatFilter
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

_FULL = "The disk is full. Nothing was stored; free some space and try again."
_READ_ONLY = "The database file cannot be written. Nothing was stored; check its permissions and its disk."
_UNWRITABLE = frozenset({_FULL, _READ_ONLY})

_REASONS = (
    (
        "statement timeout",
        "The query took too long. Narrow the filter, or shorten the time range.",
    ),
    ("locked", "The database is busy: others have been writing for 5 seconds. Nothing was stored; try again."),
    ("busy", "The database is busy: others have been writing for 5 seconds. Nothing was stored; try again."),
    ("full", _FULL),
    ("No space left", _FULL),
    ("readonly", _READ_ONLY),
    ("unable to open", "The database file cannot be opened. Check that its folder exists and may be written."),
    ("not a database", "The database file is not an SQLite database. Name another file, or restore a copy."),
    ("malformed", "The database file is damaged. Restore a copy; nothing was stored."),
)


def _is_unusable(error: object) -> bool:
    """Return whether the database failed; other errors of the driver are mistakes of this code."""
    names = {kind.__name__ for kind in type(error).__mro__}
    return not names.isdisjoint(_UNUSABLE) or type(error).__name__ == "DatabaseError"


def _sentence(error: object) -> str:
    if any(kind.__name__ == "TimeoutError" for kind in type(error).__mro__):
        return "No connection to the database became free for 5 seconds. Nothing was stored; try again."
    known = (sentence for words, sentence in _REASONS if words in str(error))
    return next(known, "The database cannot be reached. Nothing was stored; the server's log has the reason.")
