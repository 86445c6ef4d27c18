"""The start of every lesson: a real scheduler on a fresh database, a clock to turn, and a client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.rules.limits.pool import Pool
from duetime.scheduler.service.change_notices import ChangeNotices
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store, open_store
from duetime.server.protocol.server import make_server
from duetime.server.protocol.subscriptions import Subscriptions
from mcp import Client


class Clock:
    """Saturday 21 November 2026, 17:00 in Edmonton, until it is turned."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 21, 23, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def turn(self, **by: float) -> None:
        self.now += timedelta(**by)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def turn(clock: Clock) -> Callable[..., None]:
    """Turn the clock forward: `turn(minutes=5)`."""
    return clock.turn


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    store = open_store(f"sqlite:///{tmp_path / 'duetime.db'}", clock=clock, synchronous="OFF")
    yield store
    store.close()


@pytest.fixture
async def client(store: Store) -> AsyncIterator[Client]:
    changes = Subscriptions(lambda: store.history)
    planner = Planner(
        Handlers.load(entry_points=False), "America/Edmonton", pools=lambda: {"gpu": Pool("gpu", capacity=2)}
    )
    scheduler = Scheduler(store, planner, notices=ChangeNotices(on_change=changes.touched))
    async with Client(make_server(lambda: scheduler, changes)) as client:
        yield client
