"""The SQLite file that one test leaves to the next, and the connections to it.

A test of the store opens two. To read the schema and prepare its statements takes a new connection as long as many
tests take. Whatever a test leaves that is no row, as an open store or another table, costs the next one a new file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakSet

from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from tests import blank

MAX_IDLE_CONNECTIONS = 4
STATEMENT_COUNT = 1_000
"""Prepared statements that a connection keeps: more than the store has."""

BUSY_TIMEOUT_MS = 5_000
EDITOR_PATIENCE_S = 1.0
"""Seconds for which a test may keep a lock or a snapshot after its end."""

KEYS_ON = "PRAGMA foreign_keys=ON"
TABLE_NAMES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'sqlite_sequence' ORDER BY name"


class SharedConnection(sqlite3.Connection):
    """A connection whose `close` leaves it to whoever connects to its file in the same way next."""

    idle: ClassVar[dict[str, list[SharedConnection]]] = {}
    """By how they connected, those to the file that is shared now."""

    used: ClassVar[WeakSet[SharedConnection]] = WeakSet()
    """Connections to that file that nobody has closed: a thread which a test left behind may write there yet."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.how = ""
        self._checks_keys = False
        self._functions = set[str]()

    def close(self) -> None:
        self.used.discard(self)
        idle = self.idle.get(self.how)
        if idle is None or len(idle) >= MAX_IDLE_CONNECTIONS or self.in_transaction:
            super().close()
        elif self not in idle:
            idle.append(self)

    def execute(self, sql: str, /, *parameters: Any) -> sqlite3.Cursor:
        """Execute a statement, but for one that changes nothing and has all others prepared again."""
        if sql.startswith("PRAGMA foreign_keys="):
            if sql == KEYS_ON and self._checks_keys:
                return self.cursor()
            self._checks_keys = sql == KEYS_ON
        return super().execute(sql, *parameters)

    def create_function(self, name: str, *args: Any, **options: Any) -> None:
        """Give the engine its function once: the same again would have all statements prepared again."""
        if name not in self._functions:
            self._functions.add(name)
            super().create_function(name, *args, **options)

    def as_new(self) -> SharedConnection:
        """Take back what a test may have set."""
        self.isolation_level = ""  # type: ignore[assignment]  # what a new one has; typeshed leaves it out
        self.row_factory, self.text_factory = None, str
        super().execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}").close()
        self._checks_keys = super().execute("PRAGMA foreign_keys").fetchone() == (1,)  # a cursor may have set it
        return self


class SharedFile:
    """A database with Duetime's tables, which each test finds as it was made."""

    def __init__(self, path: Path) -> None:
        self.path = path
        blank.make(path)
        self._editor = sqlite3.connect(path, isolation_level=None, timeout=EDITOR_PATIENCE_S)
        self._editor.execute("PRAGMA synchronous=OFF")
        self._names = [name for (name,) in self._editor.execute(TABLE_NAMES)]
        self._kept = {name: self._editor.execute(f'SELECT * FROM "{name}"').fetchall() for name in self._names}
        self._filled = " UNION ALL ".join(
            f"SELECT '{name}' WHERE EXISTS (SELECT 1 FROM \"{name}\")" for name in self._names
        )
        self._version, self._inode = self._schema_version(), path.stat().st_ino

    def _schema_version(self) -> int:
        return int(self._editor.execute("PRAGMA schema_version").fetchone()[0])

    def empty(self) -> bool:
        """Make it as it was; return whether that is all that the test before left."""
        try:
            if SharedConnection.used or self._is_another():
                return False
            self._editor.execute("BEGIN IMMEDIATE")
            for (name,) in self._editor.execute(self._filled).fetchall():
                self._restore(name)
            self._editor.execute("DELETE FROM sqlite_sequence")
            self._editor.execute("COMMIT")
            busy, *_ = self._editor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except (sqlite3.Error, OSError):
            return False
        return not busy

    def _is_another(self) -> bool:
        return self.path.stat().st_ino != self._inode or self._schema_version() != self._version

    def _restore(self, name: str) -> None:
        kept = self._kept[name]
        if kept and self._editor.execute(f'SELECT * FROM "{name}"').fetchall() == kept:
            return
        self._editor.execute(f'DELETE FROM "{name}"')
        for row in kept:
            self._editor.execute(f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(row))})', row)

    def end(self) -> None:
        """Close it for good."""
        for idle in SharedConnection.idle.values():
            for each in idle:
                sqlite3.Connection.close(each)
        SharedConnection.idle.clear()
        SharedConnection.used.clear()
        self._editor.close()


class SharedFiles:
    """One file after the other in a folder, most often the first."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0
        self._file: SharedFile | None = None

    def empty(self) -> Path:
        """Return the path of an empty database."""
        if self._file is None or not self._file.empty():
            self.end()
            self._count += 1
            self._file = SharedFile(self._folder / f"duetime{self._count}.db")
        return self._file.path

    def end(self) -> None:
        if self._file is not None:
            self._file.end()

    def connect(self, path: str, **options: Any) -> SharedConnection | None:
        """Connect to the shared file, or take a connection that was closed; None for another file."""
        if self._file is None or path != str(self._file.path):
            return None
        how = f"{path} {sorted(options.items())}"
        idle = SharedConnection.idle.setdefault(how, [])
        if idle:
            found = idle.pop().as_new()
        else:
            found = sqlite3.connect(path, factory=SharedConnection, cached_statements=STATEMENT_COUNT, **options)
            found.how = how
        SharedConnection.used.add(found)
        return found


@contextmanager
def shared(folder: Path) -> Iterator[SharedFiles]:
    """Let all stores that open the shared file take their connections from those that others closed."""
    files, connected = SharedFiles(folder), SQLiteDialect_pysqlite.connect

    def connect(dialect: SQLiteDialect_pysqlite, *args: Any, **options: Any) -> Any:
        return files.connect(*args, **options) or connected(dialect, *args, **options)

    SQLiteDialect_pysqlite.connect = connect  # type: ignore[method-assign, assignment]  # stores make their engines themselves
    try:
        yield files
    finally:
        SQLiteDialect_pysqlite.connect = connected  # type: ignore[method-assign]  # as above
        files.end()
