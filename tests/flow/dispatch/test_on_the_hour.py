"""Two hundred tenants ask for the same full hour, on a pool of ten: a clock that only moves when told to."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from duetime.scheduler.delivery import Channels
from duetime.scheduler.handlers import Context, Handlers, handler, reminder
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done
from duetime.scheduler.principal import Principal
from duetime.scheduler.queue import DispatchQueue
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.queue.redis.queue import RedisQueue
from duetime.scheduler.request import Request
from duetime.scheduler.rules.limits.admission import Kind, Limits
from duetime.scheduler.rules.limits.pool import Pool
from duetime.scheduler.rules.occurrences import delay_of
from duetime.scheduler.run_records import Claim
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import Task
from duetime.server.settings.model import Settings
from duetime.server.settings.options import planner_of

from tests.builders import Clock
from tests.series.house import House

HOUR = datetime(2026, 11, 23, 9, tzinfo=UTC)
TENANT_COUNT, SLOT_COUNT, TAKES = 200, 10, timedelta(seconds=6)
SPREAD = timedelta(minutes=2)


@handler("import", needs={"api": 1})
def import_orders(_ctx: Context) -> Done:
    return Done("imported")


@dataclass
class Rush:
    """The house around a full hour, and what was started when."""

    house: House
    scheduler: Scheduler
    due: dict[str, datetime] = field(default_factory=dict)
    first: dict[str, datetime] = field(default_factory=dict)
    most_at_once: int = 0

    def schedule(self, tenant: str, jitter: str | None = None) -> None:
        policy = None if jitter is None else {"jitter": jitter}
        asked = Request("Import", repeat="every day at 9:00", action="import", repeat_policy=policy)
        task = self.scheduler.submit(asked, by=Principal(tenant=tenant, user="u")).record.task
        self.due[tenant] = min(HOUR + delay_of(task), self.due.get(tenant, HOUR + SPREAD))

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

    def ideal(self) -> dict[str, datetime]:
        """Return when the first run of each tenant would start, if the pool were for first runs alone.

        Of tenants that are due at once the order is the one in which they did start.
        """
        slots = [HOUR] * SLOT_COUNT
        starts = {}
        for tenant in sorted(self.due, key=lambda each: (self.due[each], self.first[each])):
            starts[tenant] = max(self.due[tenant], heapq.heappop(slots))
            heapq.heappush(slots, starts[tenant] + TAKES)
        return starts


@pytest.fixture(params=["memory", "redis"])
def queue(request: pytest.FixtureRequest, clock: Clock) -> Iterator[DispatchQueue]:
    def now_ms() -> float:
        return clock().timestamp() * 1000

    if request.param == "memory":
        yield MemoryQueue(now_ms)
        return
    shared = RedisQueue(request.getfixturevalue("valkey_url"), namespace=f"test-{uuid4().hex}", clock=now_ms)
    assert shared.begin_rebuild("test")
    assert shared.end_rebuild("test")
    yield shared
    shared.close()


@pytest.fixture
def rush(store: Store, clock: Clock, queue: DispatchQueue) -> Rush:
    clock.at = HOUR - timedelta(minutes=30)
    house = House(store, clock, queue)
    pool = Pool("api", capacity=SLOT_COUNT)
    queue.set_pool("api", Limits(Kind.SLOTS, SLOT_COUNT))
    planner = Planner(Handlers([import_orders]), "UTC", pools=lambda: {"api": pool}, spread=SPREAD)
    return Rush(house, Scheduler(store, planner))


@pytest.mark.parametrize("jitter", ["0 s", None], ids=["exact", "spread by default"])
def test_each_tenant_starts_within_twice_its_ideal_and_the_pool_is_never_over_capacity(
    rush: Rush, jitter: str | None
) -> None:
    """A tenant whose turn comes while all slots are taken waits for the first of them: runs are never interrupted."""
    for _ in range(50):  # one tenant alone asks for a quarter as much as all the others, and asks first
        rush.schedule("t000", jitter)
    for number in range(1, TENANT_COUNT):
        rush.schedule(f"t{number:03}", jitter)
    rush.pass_by(HOUR + timedelta(minutes=10))
    assert len(rush.first) == TENANT_COUNT
    assert rush.most_at_once == SLOT_COUNT
    busy = TAKES if jitter is None else timedelta(0)
    bounds = {tenant: HOUR + 2 * (start - HOUR) + busy for tenant, start in rush.ideal().items()}
    late = {tenant: rush.first[tenant] - bound for tenant, bound in bounds.items() if rush.first[tenant] > bound}
    assert late == {}


@pytest.mark.parametrize(
    ("settings", "window_s"),
    [
        ({}, 0),
        ({"auth": "keys"}, 120),
        ({"database_url": "postgresql://db/duetime", "redis_url": "redis://queue"}, 120),
        ({"auth": "keys", "spread_seconds": 0}, 0),
        ({"spread_seconds": 30}, 30),
    ],
    ids=["one user", "callers who log in", "many machines", "many, exact on request", "one user, spread on request"],
)
def test_the_work_of_one_user_is_exact_on_the_hour_and_that_of_many_is_spread(
    settings: dict[str, Any], window_s: int
) -> None:
    parts = planner_of(Settings(timezone="UTC", **settings), Handlers([import_orders, reminder]), Channels())
    planner = replace(parts, pools=lambda: {"api": Pool("api", capacity=1)})

    def planned(action: str) -> Task:
        return planner.plan(
            Request("Import", repeat="every day at 9:00", action=action), Principal("t", "u"), HOUR
        ).task

    policy = planned("import").repeat_policy
    assert (policy.jitter if policy else None) == (timedelta(seconds=window_s) or None)
    assert delay_of(planned("reminder")) == timedelta(0)
