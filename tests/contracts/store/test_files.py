"""A test of the store on SQLite finds the shared file as it was made, whatever the one before did to it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.store.schema.base import Base

from tests.builders import Clock, added
from tests.contracts.store import files


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[files.SharedFiles]:
    with files.shared(tmp_path) as made:
        yield made


def opened(path: Path) -> Store:
    return open_store(f"sqlite:///{path}", clock=Clock(), synchronous="OFF")


def rows(path: Path) -> dict[str, list[tuple[object, ...]]]:
    names = [*(table.name for table in Base.metadata.sorted_tables), "duetime_version", "sqlite_sequence"]
    with closing(sqlite3.connect(path)) as file:
        return {name: file.execute(f'SELECT * FROM "{name}"').fetchall() for name in names}


def test_no_row_and_no_number_of_a_row_is_left_and_the_connections_are(shared: files.SharedFiles) -> None:
    path = shared.empty()
    blank = rows(path)
    with closing(opened(path)) as store:
        added(store)
        writer = store._database._raw  # type: ignore[attr-defined]  # it is a file's
    assert rows(path) != blank
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE server_keys SET key = 'another'")
    assert shared.empty() == path
    assert rows(path) == blank
    with closing(opened(path)) as store:
        assert store._database._raw is writer  # type: ignore[attr-defined]  # likewise


def lock(path: Path) -> sqlite3.Connection:
    other = sqlite3.connect(path, isolation_level=None, timeout=0)
    other.execute("BEGIN IMMEDIATE")
    return other


def read(path: Path) -> sqlite3.Connection:
    with closing(opened(path)) as store:
        added(store)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN")
    other.execute("SELECT * FROM tasks").fetchall()
    return other


def change(path: Path) -> sqlite3.Connection:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("ANALYZE")
    return other


def remove(path: Path) -> sqlite3.Connection:
    path.unlink()
    return sqlite3.connect(":memory:")


@pytest.mark.parametrize("leave", [lock, read, change, remove, opened])
def test_a_lock_a_snapshot_another_table_no_file_or_an_open_store_costs_the_next_test_a_new_file(
    shared: files.SharedFiles, monkeypatch: pytest.MonkeyPatch, leave: Callable[[Path], sqlite3.Connection | Store]
) -> None:
    monkeypatch.setattr(files, "EDITOR_PATIENCE_S", 0.0)
    path = shared.empty()
    with closing(leave(path)):
        found = shared.empty()
        assert found != path
        with closing(opened(found)) as store:
            added(store)


@pytest.mark.parametrize("by", [lambda raw: raw, lambda raw: raw.cursor()], ids=["connection", "cursor"])
def test_a_connection_is_given_on_as_a_new_one_is(shared: files.SharedFiles, by: Callable[[Any], Any]) -> None:
    path = shared.empty()
    with closing(opened(path)) as store:
        raw = store._database._raw  # type: ignore[attr-defined]  # it is a file's
        raw.row_factory, raw.text_factory = sqlite3.Row, bytes
        raw.execute("PRAGMA busy_timeout=7")
        by(raw).execute("PRAGMA foreign_keys=OFF")
    shared.empty()
    with closing(opened(path)) as store:
        assert store._database._raw is raw  # type: ignore[attr-defined]  # likewise
        assert (raw.row_factory, raw.text_factory) == (None, str)
        settings = [raw.execute(f"PRAGMA {name}").fetchone()[0] for name in ("busy_timeout", "foreign_keys")]
        assert settings == [5_000, 1]


def test_a_connection_in_a_transaction_is_not_given_on(shared: files.SharedFiles) -> None:
    path = str(shared.empty())
    taken = shared.connect(path, isolation_level=None)
    assert taken is not None
    taken.execute("BEGIN")
    taken.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        taken.execute("SELECT 1")
