"""The ground of all flows: a store in a file, and a clock that is set by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from duetime.scheduler.store import Store, open_store

from tests.builders import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path}/duetime.db", clock=clock, synchronous="OFF")
    yield opened
    opened.close()
