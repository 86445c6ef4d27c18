"""Databases in which Duetime's tables are made: copies of one that Duetime made, once in each test process.

Making a hundred tables and indexes takes longer than many tests of a store take. Tests that open a file or an empty
database of their own have its tables made as ever.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from duetime.scheduler.store import migrate_store, open_store
from sqlalchemy import make_url

from tests import services


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


@contextmanager
def postgres_template(server: str) -> Iterator[str]:
    """Yield the name of a database of PostgreSQL with the tables; nobody may be connected to it while it is copied."""
    with services.postgres_database(server) as url:
        migrate_store(url)
        yield str(make_url(url).database)
