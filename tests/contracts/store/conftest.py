"""Every test of the store runs on each database that there is, and tests of the rules above it run on SQLite.

A test asks the rules if it takes a scheduler. They are one code for all databases. The store's own tests, the random
walks and the tests marked `on_each_database` show that each statement does the same there.
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.store.schema.base import Base
from sqlalchemy import make_url

from tests import services
from tests.builders import Clock
from tests.contracts.store import files, looks, sessions
from tests.contracts.store.databases import DATABASES, SQLITE, on_sqlite
from tests.invariants import assert_sound

SCHEDULERS = {"desk", "target", "scheduler", "house"}
"""Fixtures that ask the scheduler."""


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test of the rules on SQLite, unless it says on which databases."""
    test, given = metafunc.definition, set(metafunc.fixturenames)
    chosen = [mark for mark in test.iter_markers("parametrize") if "url" in mark.args[0]]
    if "url" in given and given & SCHEDULERS and not chosen and not test.get_closest_marker("postgres"):
        test.add_marker(on_sqlite)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="session")
def postgres_tables(postgres_server: str) -> Iterator[str]:
    """Make one database with Duetime's tables, to be emptied for each test: much faster than making them again."""
    with services.postgres_database(postgres_server) as url:
        open_store(url).close()
        sessions.share(str(make_url(url).database))
        looks.watch()
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


@pytest.fixture(scope="session")
def sqlite_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[files.SharedFiles]:
    """Keep one file with Duetime's tables, to be emptied for each test, and the connections to it."""
    with files.shared(tmp_path_factory.mktemp("files")) as shared:
        yield shared


@pytest.fixture(params=DATABASES)
def url(request: pytest.FixtureRequest) -> str:
    if request.param == SQLITE:
        shared: files.SharedFiles = request.getfixturevalue("sqlite_files")
        return f"sqlite:///{shared.empty()}"
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
