"""Every test of the store runs on each database that there is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.store.schema.base import Base
from sqlalchemy import make_url

from tests import blank, services
from tests.builders import Clock
from tests.contracts.store import sessions
from tests.invariants import assert_sound


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="session")
def postgres_tables(postgres_server: str) -> Iterator[str]:
    """Make one database with Duetime's tables, to be emptied for each test: much faster than making them again."""
    with services.postgres_database(postgres_server) as url:
        open_store(url).close()
        sessions.share(str(make_url(url).database))
        yield url
        sessions.end()


DELETIONS = "; ".join(
    ["SET lock_timeout = '20s'", *(f'DELETE FROM "{table.name}"' for table in reversed(Base.metadata.sorted_tables))]
)


def emptied(url: str) -> str:
    """Delete all rows, in one round trip."""
    services.administer(url, DELETIONS)
    return url


@pytest.fixture(scope="session")
def administrator(postgres_tables: str) -> Iterator[psycopg.Connection]:
    """Keep one connection that deletes: to learn of all tables takes each new one 20 times as long as to empty them."""
    with services.connected(make_url(postgres_tables)) as connection:
        yield connection


@pytest.fixture
def empty_postgres(postgres_tables: str, administrator: psycopg.Connection) -> str:
    """Empty the database: most tests of the store on PostgreSQL begin with this."""
    administrator.execute(DELETIONS.encode())
    return postgres_tables


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        blank.make(tmp_path / "duetime.db")
        return f"sqlite:///{tmp_path}/duetime.db"
    found: str = request.getfixturevalue("empty_postgres")
    return found


@pytest.fixture
def store(url: str, clock: Clock, request: pytest.FixtureRequest) -> Iterator[Store]:
    """Open an empty store; whatever a test did to it through its methods must leave every invariant in place."""
    opened = open_store(url, clock=clock, synchronous="OFF")
    yield opened
    try:
        if "damages" not in request.keywords:
            assert_sound(opened)
    finally:
        opened.close()
