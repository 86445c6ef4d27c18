"""A scheduler as a program opens it, on a database of its own, which runs nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from duetime import Scheduler
from duetime.server.settings.model import Settings

from tests import blank


@pytest.fixture(scope="session")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scheduler]:
    folder: Path = tmp_path_factory.mktemp("python")
    blank.make(folder / "duetime.db")
    settings = Settings(
        database_url=f"sqlite:///{folder / 'duetime.db'}",
        sqlite_synchronous="OFF",
        desktop_notifications="off",
        timezone="Europe/Berlin",
    )
    with Scheduler.open(settings, run=False) as opened:
        yield opened
