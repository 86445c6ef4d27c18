"""A blank file is what Duetime makes of none, and a copied database what it makes of an empty one."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from duetime.scheduler.store import migrate_store, open_store
from sqlalchemy import make_url

from tests import blank, services

CATALOG = """
SELECT table_name, column_name, data_type, is_nullable, column_default, '' FROM information_schema.columns
WHERE table_schema = 'public'
UNION ALL SELECT tablename, indexname, indexdef, '', '', '' FROM pg_indexes WHERE schemaname = 'public'
UNION ALL SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid), '', '', '' FROM pg_constraint
UNION ALL SELECT relname, reloptions::text, '', '', '', '' FROM pg_class WHERE relnamespace = 'public'::regnamespace
UNION ALL SELECT proname, pg_get_functiondef(oid), '', '', '', '' FROM pg_proc
WHERE pronamespace = 'public'::regnamespace AND prokind = 'f'
"""
"""Columns, indexes, constraints, options and functions."""


def dump(path: Path) -> list[str]:
    """Return what is in a file; its keys are random."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE server_keys SET key = ''")
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


def contents(url: str) -> set[tuple[object, ...]]:
    """Return what the catalog of a database says, and the rows of each table."""
    with services.connected(make_url(url)) as connection:
        found: set[tuple[object, ...]] = set(connection.execute(CATALOG).fetchall())
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        for (table,) in tables:
            columns = "name" if table == "server_keys" else "*"  # the keys are random
            rows = connection.execute(f'SELECT {columns} FROM "{table}"'.encode()).fetchall()
            found.update((table, str(row)) for row in rows)
        return found


@pytest.mark.postgres
def test_a_migrated_database_is_the_one_that_duetime_makes(postgres_url: str, migrated_postgres_url: str) -> None:
    migrate_store(postgres_url)
    made, copied = contents(postgres_url), contents(migrated_postgres_url)
    assert len(made) > 100
    assert made == copied
