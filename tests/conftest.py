"""Services that tests share. One that cannot start skips its tests on a laptop, and fails them when `CI` is set."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest
from hypothesis import settings

from tests import services

settings.register_profile("steady", deadline=None)  # how long one example takes is no promise of ours
settings.load_profile("steady")


def started(service: AbstractContextManager[str]) -> Iterator[str]:
    try:
        url = service.__enter__()
    except services.Unavailable as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))
    try:
        yield url
    finally:
        service.__exit__(None, None, None)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """Start a real PostgreSQL, one for each test process."""
    yield from started(services.postgres_server())


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """Make an empty database for one test."""
    with services.postgres_database(postgres_server) as url:
        yield url


@pytest.fixture(scope="session")
def valkey_url() -> Iterator[str]:
    """Start a real Valkey (Redis protocol), one for each test process."""
    yield from started(services.valkey_server())
