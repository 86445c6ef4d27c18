"""Every test of the store runs on each database that there is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.store.schema.base import Base

from tests import services
from tests.builders import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="session")
def postgres_tables(postgres_server: str) -> Iterator[str]:
    """Make one database with Duetime's tables, to be emptied for each test: much faster than making them anew."""
    with services.postgres_database(postgres_server) as url:
        open_store(url).close()
        yield url


def emptied(url: str) -> str:
    """Delete all rows, in one round trip: most tests of the store on PostgreSQL begin with this."""
    tables = reversed(Base.metadata.sorted_tables)
    services.administer(
        url, "; ".join(["SET lock_timeout = '20s'", *(f'DELETE FROM "{table.name}"' for table in tables)])
    )
    return url


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/duetime.db"
    return emptied(request.getfixturevalue("postgres_tables"))


@pytest.fixture
def store(url: str, clock: Clock, request: pytest.FixtureRequest) -> Iterator[Store]:
    """Open an empty store; whatever a test did to it through its methods must leave every invariant in place."""
    opened = open_store(url, clock=clock, synchronous="OFF")
    yield opened
    damaged = "damages" in request.keywords
    findings = () if damaged else opened.integrity.examine().findings
    opened.close()
    assert findings == ()
