"""A served application, as the tests of access make it."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.flow.auth.conftest import Serve, Site, serving


@pytest.fixture
async def serve(tmp_path: Path) -> AsyncIterator[Serve]:
    """Return what serves the test's database with given settings."""
    async with AsyncExitStack() as stack:

        async def served(**settings: Any) -> Site:
            return await stack.enter_async_context(serving(tmp_path, **settings))

        yield served


def binary(name: str) -> str:
    """Return a program of Debian's package `prometheus`; without it a laptop skips the test, and CI fails."""
    found = shutil.which(name)
    if found is None:
        said = f"there is no {name}: apt-get install prometheus"
        if os.environ.get("CI"):
            pytest.fail(said)
        pytest.skip(said)
    return found


@pytest.fixture(scope="session")
def promtool() -> str:
    return binary("promtool")


@pytest.fixture(scope="session")
def prometheus() -> str:
    return binary("prometheus")
