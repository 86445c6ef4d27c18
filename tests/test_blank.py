"""A blank file is what Duetime makes of none."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from duetime.scheduler.store import open_store

from tests import blank


def dump(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [*connection.iterdump(), *map(str, connection.execute("PRAGMA journal_mode"))]


def test_a_blank_file_is_the_one_that_duetime_makes(tmp_path: Path) -> None:
    made, copied = tmp_path / "made.db", tmp_path / "copied.db"
    open_store(f"sqlite:///{made}").close()
    blank.make(copied)
    assert dump(copied) == dump(made)
    assert copied.stat().st_mode == made.stat().st_mode


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "duetime.db"
    path.write_text("something else")
    blank.make(path)
    assert path.read_text() == "something else"
