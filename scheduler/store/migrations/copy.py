"""A copy of an SQLite file while others write to it: complete, or not there."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

from duetime.scheduler.errors import StoreUnavailable, StoreUnwritable
from duetime.scheduler.store.database.sqlite import Sqlite
from duetime.scheduler.store.database.transaction_order import EVENT_ID_GAP_COUNT
from sqlalchemy import Connection

_LEAVE_GAP = "UPDATE sqlite_sequence SET seq = seq + ? WHERE name = 'events'"


def copy_file(database: Sqlite, target: Path) -> Path | None:
    """Copy the file with its journal's content, as one moment had it; None for a database in memory.

    A kill halfway leaves no `target`, and the copy is on the disk when this returns. New events of the copy get no id
    that one of the file may have had since. Raises StoreUnwritable where the copy cannot be written.
    """
    if database.path is None:
        return None
    partial = target.with_name(f"{target.name}.partial-{os.getpid()}")
    try:
        _write(database, Path(database.path), partial)
        partial.replace(target)
    except (OSError, sqlite3.Error, StoreUnavailable) as error:
        cause = error.__cause__ if isinstance(error, StoreUnavailable) else error
        raise StoreUnwritable(f"The database cannot be copied to {target}: {cause}. Nothing was changed.") from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
    return target


def _write(database: Sqlite, path: Path, partial: Path) -> None:
    partial.touch(mode=0o600)
    destination = sqlite3.connect(partial)
    try:
        database.read(lambda connection: _raw(connection).backup(destination))
        with destination:
            destination.execute(_LEAVE_GAP, (EVENT_ID_GAP_COUNT,))
    finally:
        destination.close()
    shutil.copymode(path, partial)
    with partial.open("rb+") as written:
        os.fsync(written.fileno())


def _raw(connection: Connection) -> Any:
    return connection.connection.dbapi_connection
