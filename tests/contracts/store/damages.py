"""Values that no version of Duetime writes, for each column, and how a test writes them behind the store's back."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing

import pytest
from duetime.scheduler.store.schema.base import Base
from duetime.scheduler.store.schema.json_types import JsonObject, JsonValue, Retrying, Strings, Units
from duetime.scheduler.store.schema.types import ClosedSet, Instant, Interval, Plain, Truth, WholeNumber
from sqlalchemy import make_url

from tests.contracts.store.databases import SQLITE
from tests.contracts.store.sessions import session

POSTGRES = "postgres"

IDENTITY = frozenset({"id", "run_id", "task_id", "tenant", "current", "seq", "number", "phase"})
"""Columns by which a row is found, and what the database computes: a test of them shows nothing about reading."""

_SHAPES: Mapping[type, Sequence[str]] = {
    Units: ["'[\"gpu\"]'", '\'{"gpu": "two"}\'', "'7'"],
    JsonObject: ["'[1]'", "'\"text\"'"],
    Strings: ["'{\"a\": 1}'", "'[1, 2]'", "'\"text\"'"],
    Retrying: ["'[]'", "'{\"attempts\": 3}'", '\'{"max_attempts": "5", "backoff": 1, "max_backoff": 2}\''],
}
"""JSON of the wrong shape, as SQL of both databases."""

_BYTES = ["x'fffe'", "CAST(x'fffe' AS TEXT)"]
_ON_SQLITE: Mapping[type, Sequence[str]] = {
    JsonValue: ["'not JSON'", "'{'", *_BYTES, "'[NaN]'"],
    ClosedSet: ["'pondered'", "7", *_BYTES],
    Instant: ["'never'", "9000000000000000000", "-9000000000000000000", *_BYTES],
    Interval: ["'long'", "9000000000000000000"],
    Truth: ["7", "'maybe'"],
    WholeNumber: ["'many'", "1.5", *_BYTES],
    Plain: _BYTES,
}
_ON_POSTGRES: Mapping[type, Sequence[str]] = {
    ClosedSet: ["'pondered'"],
    Instant: ["'infinity'", "'-infinity'"],
    Interval: ["9000000000000000000"],
}


def damages(table: str, column: str, url: str) -> list[str]:
    """Return the values, as SQL, that damage this column."""
    kind = Base.metadata.tables[table].c[column].type
    mine = _ON_SQLITE if url.startswith("sqlite") else _ON_POSTGRES
    shapes = next((values for of, values in _SHAPES.items() if isinstance(kind, of)), [])
    others = [value for of, values in mine.items() if isinstance(kind, of) for value in values]
    return [*shapes, *others]


def columns(table: str) -> list[str]:
    return [column.name for column in Base.metadata.tables[table].columns if column.name not in IDENTITY]


def of_each_column(*tables: str, but: Sequence[str] = ()) -> pytest.MarkDecorator:
    """Let a test damage each column of these tables in turn, and on PostgreSQL one of those that hold the same values.

    The column decides what reads it, its type alone what PostgreSQL returns of a value that cannot be read.
    """
    chosen = [(table, column) for table in tables for column in columns(table) if column not in but]
    last = {(table, *damages(table, column, POSTGRES)): (table, column) for table, column in chosen}
    cases = [
        *[pytest.param(SQLITE, *each) for each in chosen if damages(*each, SQLITE)],
        *[pytest.param(POSTGRES, *each, marks=pytest.mark.postgres) for of, each in last.items() if of[1:]],
    ]
    return pytest.mark.parametrize(("url", "table", "column"), cases, indirect=["url"])


def damage(url: str, table: str, column: str, value: str, **where: object) -> None:
    """Write a value, given as SQL, into the rows that meet the conditions, by a connection of the driver alone."""
    sqlite = url.startswith("sqlite")
    conditions = " AND ".join(f"{name} = :{name}" if sqlite else f"{name} = %({name})s" for name in where)
    statement = f'UPDATE {table} SET "{column}" = {value if sqlite else value.replace("%", "%%")} WHERE {conditions}'
    if sqlite:
        with closing(sqlite3.connect(str(make_url(url).database))) as file, file:
            file.execute("PRAGMA synchronous = OFF")
            file.execute(statement, where)
    else:
        place = make_url(url)
        with session(dbname=place.database, user=place.username, host=place.query["host"], autocommit=True) as server:
            server.execute(statement.encode(), where)
