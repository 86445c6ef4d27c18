"""A server under attack."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.flow.attacks.target import Target, under_attack


@pytest.fixture
async def target(tmp_path: Path) -> AsyncIterator[Target]:
    async with under_attack(tmp_path) as found:
        yield found
