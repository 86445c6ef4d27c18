"""The service over the store of a test, for modules that need no other handlers and no other zone."""

from __future__ import annotations

import pytest
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store


@pytest.fixture
def scheduler(store: Store) -> Scheduler:
    return Scheduler(store, Planner(Handlers.load(), "UTC", upstreams=store.dependencies.known))
