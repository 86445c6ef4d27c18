"""SQLite files in which Duetime's tables are made: copies of one that Duetime made, once in each test process.

Making a hundred tables and indexes takes longer than many tests of a store take. Tests that open a file of their own
have its tables made as ever.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from duetime.scheduler.store import open_store


def make(path: Path) -> None:
    """Make an empty database, unless there is a file."""
    if not path.exists():
        path.touch(mode=0o600)
        path.write_bytes(_content())


@cache
def _content() -> bytes:
    with tempfile.TemporaryDirectory(prefix="duetime-blank-") as folder:
        path = Path(folder, "duetime.db")
        open_store(f"sqlite:///{path}", synchronous="OFF").close()
        return path.read_bytes()
