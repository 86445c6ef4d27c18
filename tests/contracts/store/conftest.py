"""Every test of the store runs on each database that there is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from duetime.scheduler.store import Store, open_store

from tests.contracts.store.making import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/duetime.db"


@pytest.fixture
def store(url: str, clock: Clock) -> Iterator[Store]:
    opened = open_store(url, clock=clock, synchronous="OFF")
    yield opened
    opened.close()
