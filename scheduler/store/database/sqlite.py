"""Transactions on a SQLite file, or on a database in memory."""

from __future__ import annotations

import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from duetime.scheduler.errors import StoreUnavailable, StoreUnwritable
from duetime.scheduler.runtime.file_lock import FileLock
from duetime.scheduler.store.database.change_limits import CHANGE_LIMITS_OPTION, ChangeLimits
from duetime.scheduler.store.database.database import BUSY_TIMEOUT_S, Database, Stored, Work
from duetime.scheduler.store.database.dialects import DIALECT, SQLITE
from duetime.scheduler.store.database.driver_errors import translated
from duetime.scheduler.store.database.unreadable import UNREADABLE_OPTION, Unreadable
from sqlalchemy import URL, Connection, QueuePool, create_engine, event

T = TypeVar("T")

MIN_FREE_BYTES = 1024 * 1024
"""Free bytes below which no process counts as ready: the write of a large task takes about as much."""

CLOSED_STORE = "The database is closed, because this process is ending. Nothing was stored; try again."

JOURNAL_PAUSE_S = 0.01
"""Seconds between two tries to give a new file its journal."""


class Sqlite(Database):
    """One file with one writer at a time: in this process by a lock, between processes by SQLite's own.

    The driver begins no transactions by itself, and writes begin IMMEDIATE. An upgrade from reading to writing fails at
    once, without waiting, when another process wrote in between.
    """

    def __init__(self, url: URL, *, synchronous: str, admit: Callable[[sqlite3.Connection], None]) -> None:
        """Open the file; `admit` is called with its first connection before anything is written, and may raise."""
        self.path = None if url.database in {None, "", ":memory:"} else url.database
        self.engine = create_engine(
            url,
            isolation_level="AUTOCOMMIT",
            execution_options={
                UNREADABLE_OPTION: Unreadable(),
                DIALECT: SQLITE,
                CHANGE_LIMITS_OPTION: ChangeLimits(),
            },
            poolclass=QueuePool,
            pool_size=4,
            max_overflow=60,
            connect_args={"check_same_thread": False, "timeout": BUSY_TIMEOUT_S},
        )
        event.listen(self.engine, "first_connect", lambda raw, _record: admit(raw))
        event.listen(self.engine, "connect", _configure(synchronous))
        self._lock = threading.RLock()
        self._durable_level = synchronous.upper()
        self._is_closed = False
        self._make_private()
        with translated():
            self._open_writer()

    def _open_writer(self) -> None:
        self._level = self._durable_level
        self._writer = self.engine.connect()
        self._writer.begin()  # SQLAlchemy sees one endless transaction; the real ones are below
        self._raw: Any = self._writer.connection.dbapi_connection
        self._writer.exec_driver_sql("PRAGMA cache_size=-8000")  # KiB; readers keep SQLite's 2 MB each

    def _make_private(self) -> None:
        """Make a new file readable by its owner only; SQLite gives its journal files the same mode."""
        with suppress(OSError):  # SQLite reports a bad path when it opens it
            if self.path and not Path(self.path).exists():
                Path(self.path).touch(mode=0o600)

    def read(self, work: Work[T]) -> T:
        if self.path is None:  # a database in memory belongs to its one connection
            with self._lock, translated():
                return work(self._writer)
        with translated(), self.engine.connect() as connection:
            raw: Any = connection.connection.dbapi_connection
            raw.execute("BEGIN")
            try:
                return work(connection)
            finally:
                if not connection.invalidated:  # by an interrupt within a statement: SQLAlchemy has closed it
                    raw.rollback()

    def write(
        self,
        work: Work[T],
        *,
        durable: bool = True,
        stored: Stored[T] | None = None,  # noqa: ARG002 - a file's commits do not get lost on the way
        may_be_stored: bool = False,  # noqa: ARG002 - as above
    ) -> T:
        with self._lock, self.last_write.watched(), translated():
            if self._is_closed:
                raise StoreUnavailable(CLOSED_STORE)
            self._synchronise(durable=durable)
            self._raw.execute("BEGIN IMMEDIATE")
            try:
                result = work(self._writer)
                self._raw.execute("COMMIT")
            except BaseException:
                self._roll_back()
                raise
            return result

    def check_writable(self) -> None:
        super().check_writable()
        if self.path is not None:
            _check_room(Path(self.path).absolute().parent)

    def file(self) -> str:
        with suppress(OSError):
            if self.path is not None:
                found = Path(self.path).stat()
                return f"{found.st_dev}:{found.st_ino}"
        return ""

    def disk_used(self) -> float | None:
        with suppress(OSError):
            if self.path is not None:
                disk = shutil.disk_usage(Path(self.path).absolute().parent)
                return 1 - disk.free / disk.total if disk.total else None  # 0 of 0: without figures
        return None

    def _roll_back(self) -> None:
        """Roll back. After an interrupt within a statement SQLAlchemy has closed the connection, so open another."""
        if self._writer.invalidated:
            self._open_writer()
        else:
            self._raw.rollback()

    def _synchronise(self, *, durable: bool) -> None:
        """Sync the disk at the next commit, or leave that to a later one: the sync is most of a small write."""
        level = self._durable_level if durable or self._durable_level == "OFF" else "NORMAL"
        if level != self._level:
            self._raw.execute(f"PRAGMA synchronous={level}")
            self._level = level

    def migrate(self, work: Work[None]) -> None:
        """Run `work` with foreign keys off, because altering a table rebuilds it; then check them all."""

        def checked(connection: Connection) -> None:
            work(connection)
            broken = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
            if broken:
                message = f"the migration broke references: {broken[:3]}"
                raise sqlite3.IntegrityError(message)

        with self._lock:
            self._raw.execute("PRAGMA foreign_keys=OFF")
            try:
                self.write(checked)
            finally:
                self._raw.execute("PRAGMA foreign_keys=ON")

    @contextmanager
    def alone(self, lock_id: int, name: str) -> Iterator[bool]:  # noqa: ARG002 - a server has numbers for locks
        """Hold a lock on a file next to the database, as a transaction would keep others from writing."""
        if self.path is None:
            yield True
            return
        lock = FileLock(Path(f"{self.path}.{name}"))
        try:
            yield lock.acquire()
        finally:
            lock.release()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._writer.close()
            super().close()


def _check_room(directory: Path) -> None:
    disk = shutil.disk_usage(directory)
    if disk.total and disk.free < MIN_FREE_BYTES:  # a file system without figures says 0 of 0
        raise StoreUnwritable(
            f"The disk of the database has {disk.free // 1024} KiB free, too little to store a task. Free some space."
        )


def _configure(synchronous: str) -> Callable[[Any, Any], None]:
    if synchronous.upper() not in {"OFF", "NORMAL", "FULL", "EXTRA"}:
        msg = f"synchronous: {synchronous!r} is not one of OFF, NORMAL, FULL, EXTRA"
        raise ValueError(msg)

    def configure(raw: Any, _record: Any) -> None:
        raw.execute(f"PRAGMA synchronous={synchronous.upper()}").close()  # first: a new journal is synced as well
        _write_ahead(raw)
        for pragma in ("foreign_keys=ON", "journal_size_limit=67108864"):
            raw.execute(f"PRAGMA {pragma}").close()

    return configure


def _write_ahead(raw: Any) -> None:
    """Give a file its journal: only for this SQLite fails at once, without waiting, while another one does it."""
    latest = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            raw.execute("PRAGMA journal_mode=WAL").close()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > latest:
                raise
            time.sleep(JOURNAL_PAUSE_S)
        else:
            return
