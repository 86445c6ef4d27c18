"""A database that can be read and not written: how a process knows, and what still works."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest
from duetime.scheduler.errors import StoreUnavailable, StoreUnwritable
from duetime.scheduler.handlers.messages import error_from_json, error_to_json
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.store.database.last_write import FAILURE_KEPT_S, LastWrite
from duetime.scheduler.store.database.sqlite import MIN_FREE_BYTES, Sqlite
from duetime.scheduler.store.schema.tables.pools import server_keys
from duetime.scheduler.views import TaskFilter
from sqlalchemy import Connection, delete
from sqlalchemy.exc import OperationalError

from tests.builders import TENANT, added

FULL = "The disk is full. Nothing was stored; free some space and try again."


def full(store: Store) -> Exception:
    """Return what the driver of this database raises on a full disk."""
    if isinstance(store._database, Sqlite):
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        return error
    from psycopg.errors import DiskFull

    words = 'could not extend file "base/16384/16402": No space left on device'
    return OperationalError("INSERT", {}, DiskFull(words))


def write_on_a_full_disk(store: Store) -> None:
    def work(_: Connection) -> NoReturn:
        raise full(store)

    with pytest.raises(StoreUnwritable, match="disk is full"):
        store._database.write(work)


def test_a_failed_write_counts_until_one_succeeds(store: Store) -> None:
    store.check_writable()
    write_on_a_full_disk(store)
    with pytest.raises(StoreUnwritable) as refused:
        store.check_writable()
    assert str(refused.value) == FULL
    assert store.tasks.counts(TENANT, TaskFilter()) == {}  # reads go on, and say nothing of writes
    with pytest.raises(StoreUnwritable):
        store.check_writable()
    added(store)
    store.check_writable()


def test_a_process_that_writes_nothing_more_forgets_the_failure() -> None:
    seconds = [0.0]
    last = LastWrite(clock=lambda: seconds[0])
    with pytest.raises(StoreUnwritable), last.watched():
        raise StoreUnwritable(FULL)
    seconds[0] = FAILURE_KEPT_S - 1
    with pytest.raises(StoreUnwritable, match="disk is full"):
        last.check()
    seconds[0] = FAILURE_KEPT_S
    last.check()


def test_a_handler_in_a_process_of_its_own_sees_an_outage_of_the_database() -> None:
    assert type(error_from_json(cast("dict[str, Any]", error_to_json(StoreUnwritable(FULL))))) is StoreUnavailable


def test_a_busy_database_says_nothing_of_its_disk() -> None:
    last = LastWrite()
    with pytest.raises(StoreUnavailable), last.watched():
        raise StoreUnavailable("The database is busy.")
    last.check()


@pytest.mark.parametrize(("total", "free", "refused"), [(10**9, MIN_FREE_BYTES, 0), (10**9, 12_000, 1), (0, 0, 0)])
def test_a_file_without_room_around_it_is_not_writable_before_a_write_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, total: int, free: int, refused: int
) -> None:
    store = open_store(f"sqlite:///{tmp_path}/duetime.db", synchronous="OFF")
    monkeypatch.setattr("duetime.scheduler.store.database.sqlite.shutil.disk_usage", lambda _: _Disk(total, free))
    said = []
    try:
        store.check_writable()
    except StoreUnwritable as error:
        said = [str(error)]
    store.close()
    assert said == ["The disk of the database has 11 KiB free, too little to store a task. Free some space."] * refused


@pytest.mark.parametrize(("total", "free", "used"), [(1000, 40, 0.96), (1000, 0, 1.0), (0, 0, None)])
def test_a_store_says_how_full_the_disk_of_its_file_is_and_nothing_of_the_disk_of_a_server(
    store: Store, monkeypatch: pytest.MonkeyPatch, total: int, free: int, used: float | None
) -> None:
    monkeypatch.setattr("duetime.scheduler.store.database.sqlite.shutil.disk_usage", lambda _: _Disk(total, free))
    assert store.disk_used() == (used if store.file() else None)


class _Disk:
    def __init__(self, total: int, free: int) -> None:
        self.total, self.free = total, free


def test_pages_can_be_read_while_the_key_of_their_cursors_cannot_be_stored(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        added(store)
    store._database.write(lambda connection: connection.execute(delete(server_keys)))
    write = type(store._database).write

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise StoreUnwritable(FULL)

    monkeypatch.setattr(type(store._database), "write", refuse)
    _, cursor = store.tasks.page(TENANT, TaskFilter(), limit=2)
    key = store.server_key("admin session")
    assert cursor is not None
    assert len(store.tasks.page(TENANT, TaskFilter(), limit=2, cursor=cursor)[0]) == 1
    monkeypatch.setattr(type(store._database), "write", write)
    assert store.server_key("admin session") == key, "the same key is stored when there is room"
