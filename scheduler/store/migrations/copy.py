"""A copy of an SQLite file while others write to it: complete, or not there."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

from duetime.scheduler.store.database.sqlite import Sqlite
from sqlalchemy import Connection


def copy_file(database: Sqlite, target: Path) -> Path | None:
    """Copy the file with its journal's content, as one moment had it; None for a database in memory.

    A kill halfway leaves no `target`, and the copy is on the disk when this returns.
    """
    if database.path is None:
        return None
    partial = target.with_name(f"{target.name}.partial-{os.getpid()}")
    partial.touch(mode=0o600)
    destination = sqlite3.connect(partial)
    try:
        database.read(lambda connection: _raw(connection).backup(destination))
    finally:
        destination.close()
    shutil.copymode(database.path, partial)
    with partial.open("rb+") as written:
        os.fsync(written.fileno())
    partial.replace(target)
    return target


def _raw(connection: Connection) -> Any:
    return connection.connection.dbapi_connection
