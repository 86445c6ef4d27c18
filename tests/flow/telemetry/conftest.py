"""A served application, as the tests of access make it."""

from __future__ import annotations

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
