"""Engines of one test process share the statements that they compiled.

Most tests open a store of their own, and SQLAlchemy compiles each statement once an engine. That was half of what a
test of the store took. The compiled text depends on the kind of a database only, as all engines are made alike.
"""

from __future__ import annotations

from collections import defaultdict

from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine import Dialect, Engine
from sqlalchemy.util import LRUCache

MAX_STATEMENTS = 2_000

_shared: defaultdict[type[Dialect], LRUCache[object, object]] = defaultdict(lambda: LRUCache(MAX_STATEMENTS))


def share() -> None:
    """Give all engines of one dialect the same cache; its keys name the dialect, so all of them have to be equal."""
    for dialect in (PGDialect_psycopg, SQLiteDialect_pysqlite):
        dialect.__eq__ = lambda self, other: type(self) is type(other)  # type: ignore[method-assign]  # see above
        dialect.__hash__ = lambda self: hash(type(self))  # type: ignore[method-assign]  # likewise
    cache = property(lambda engine: _shared[type(engine.dialect)], lambda _engine, _own: None)
    Engine._compiled_cache = cache  # type: ignore[assignment]  # each engine sets one of its own, and finds the shared
