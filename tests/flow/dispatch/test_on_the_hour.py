"""Two hundred tenants ask for the same full hour, on a pool of ten: a clock that only moves when told to."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from duetime.scheduler.handlers import Context, Handlers, handler
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done
from duetime.scheduler.principal import Principal
from duetime.scheduler.request import Request
from duetime.scheduler.rules.limits.admission import Kind, Limits
from duetime.scheduler.rules.limits.pool import Pool
from duetime.scheduler.run_records import Claim
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import open_store

from tests.builders import Clock
from tests.series.house import House

HOUR = datetime(2026, 11, 23, 9, tzinfo=UTC)
TENANTS, CAPACITY, TAKES = 200, 10, timedelta(seconds=6)
IDEAL = (TENANTS - CAPACITY) / CAPACITY * TAKES
"""The time until the last tenant starts, if nobody's second run goes before anybody's first."""


@handler("import", needs={"api": 1})
def import_orders(_ctx: Context) -> Done:
    return Done("imported")


@dataclass
class Rush:
    """The house around a full hour, and what was started when."""

    house: House
    scheduler: Scheduler
    first: dict[str, datetime] = field(default_factory=dict)
    most_at_once: int = 0

    def schedule(self, tenant: str, jitter: str | None = None) -> None:
        policy = None if jitter is None else {"jitter": jitter}
        asked = Request("Import", repeat="every day at 9:00", action="import", repeat_policy=policy)
        self.scheduler.submit(asked, by=Principal(tenant=tenant, user="u"))

    def pass_by(self, until: datetime) -> None:
        clock, running = self.house.clock, list[tuple[datetime, str, Claim]]()
        while clock.at < until:
            while running and running[0][0] <= clock.at:
                self.house.end([(heapq.heappop(running)[2], "done")])
            self.house.dispatch()
            for claim in self.house.start():
                self.first.setdefault(claim.task.tenant, clock.at)
                heapq.heappush(running, (clock.at + TAKES, claim.run.id, claim))
            self.most_at_once = max(self.most_at_once, len(running))
            due = [running[0][0]] if running else []
            clock.at = min([*due, self.house.next_wake() or until, until])
            clock.at = max(clock.at, HOUR)

    def last_first_start(self) -> timedelta:
        return max(self.first.values()) - HOUR


@pytest.fixture
def rush(tmp_path: Path) -> Iterator[Rush]:
    clock = Clock(HOUR - timedelta(minutes=30))
    store = open_store(f"sqlite:///{tmp_path}/duetime.db", clock=clock, synchronous="OFF")
    house = House(store, clock)
    pool = Pool("api", capacity=CAPACITY)
    house.queue.set_pool("api", Limits(Kind.SLOTS, CAPACITY))
    planner = Planner(Handlers([import_orders]), "UTC", pools=lambda: {"api": pool}, spread=timedelta(minutes=2))
    yield Rush(house, Scheduler(store, planner))
    store.close()


@pytest.mark.parametrize("jitter", ["0 s", None], ids=["exact", "spread by default"])
def test_every_tenant_starts_on_the_hour_within_twice_the_ideal_and_the_pool_is_never_over_capacity(
    rush: Rush, jitter: str | None
) -> None:
    for _ in range(50):  # one tenant alone asks for a quarter as much as all the others, and asks first
        rush.schedule("t000", jitter)
    for number in range(1, TENANTS):
        rush.schedule(f"t{number:03}", jitter)
    rush.pass_by(HOUR + timedelta(minutes=10))
    assert len(rush.first) == TENANTS
    assert rush.most_at_once <= CAPACITY
    assert rush.last_first_start() <= 2 * IDEAL, rush.last_first_start()
