"""Two hundred tenants ask for the same full hour, on a pool of ten: a clock that only moves when told to."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from duetime.scheduler.delivery import Channels
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.handlers import Context, Handlers, handler, reminder
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done
from duetime.scheduler.principal import Principal
from duetime.scheduler.queue import DispatchQueue
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.queue.redis.queue import RedisQueue
from duetime.scheduler.request import Request, StepArguments
from duetime.scheduler.rules.limits.admission import Kind, Limits
from duetime.scheduler.rules.limits.pool import Pool
from duetime.scheduler.rules.occurrences import delay_of
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.run_records import Claim
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import Run, State, Task
from duetime.scheduler.views import TaskView
from duetime.server.settings.model import Settings
from duetime.server.settings.options import planner_of

from tests.builders import Clock, restarted, settlement
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


@pytest.fixture
def shared(store: Store, clock: Clock) -> Scheduler:
    """Return the scheduler of an installation that many use."""
    clock.at = HOUR - timedelta(minutes=30)
    pools = {"api": Pool("api", capacity=SLOT_COUNT)}
    return Scheduler(store, Planner(Handlers([import_orders, reminder]), "UTC", pools=lambda: pools, spread=SPREAD))


def jitter_of(view: TaskView) -> timedelta | None:
    policy = view.record.task.repeat_policy
    return policy.jitter if policy else None


def test_a_series_is_spread_by_the_rule_that_it_has_now(shared: Scheduler) -> None:
    view = shared.schedule("Import", action="import", repeat="every day at 9:30")
    task_id = view.record.task.id
    assert jitter_of(view) is None
    view = shared.reschedule(task_id, repeat="every day at 9:00")
    assert (jitter_of(view), view.record.run.wake_at) == (SPREAD, HOUR + delay_of(view.record.task))
    assert "each run starts between 09:00 and 09:02 UTC; jitter '0 s' is exact" in view.warnings
    view = shared.reschedule(task_id, repeat="every day at 9:30")
    assert (jitter_of(view), view.record.run.wake_at) == (None, HOUR + timedelta(minutes=30))
    assert not any("starts between" in text for text in view.warnings)
    view = shared.reschedule(task_id, when="10:00", all_following=True)
    assert jitter_of(view) == SPREAD


def test_a_policy_that_names_no_jitter_leaves_a_series_spread(shared: Scheduler) -> None:
    task_id = shared.schedule("Import", action="import", repeat="every day at 9:00").record.task.id
    view = shared.reschedule(task_id, repeat_policy={"pause_after": 3})
    assert (jitter_of(view), view.record.task.repeat_policy and view.record.task.repeat_policy.pause_after) == (
        SPREAD,
        3,
    )
    assert jitter_of(shared.reschedule(task_id, remove=["repeat_policy"])) == SPREAD
    assert jitter_of(shared.reschedule(task_id, repeat_policy={"jitter": "0 s"})) == timedelta(0)
    for repeat in ("every day at 9:30", "every day at 9:00"):
        assert jitter_of(shared.reschedule(task_id, repeat=repeat)) == timedelta(0), "exact on request"
    assert jitter_of(shared.reschedule(task_id, title="Import all")) == timedelta(0)


def test_a_reminder_is_exact_whatever_rule_it_gets(shared: Scheduler) -> None:
    task_id = shared.schedule("Call", repeat="every day at 9:30").record.task.id
    assert jitter_of(shared.reschedule(task_id, repeat="every day at 9:00")) is None


def test_a_jitter_of_more_than_half_an_interval_is_refused_of_a_changed_series_too(shared: Scheduler) -> None:
    task_id = shared.schedule("Import", action="import", repeat="every hour").record.task.id
    with pytest.raises(InvalidArgument, match=r"repeat_policy\.jitter: occurrences are only 1 h apart"):
        shared.reschedule(task_id, repeat_policy={"jitter": "2 hours"})
    shared.reschedule(task_id, repeat_policy={"jitter": "20 min"})
    with pytest.raises(InvalidArgument, match=r"repeat_policy\.jitter: occurrences are only 30 min apart"):
        shared.reschedule(task_id, repeat="every 30 minutes")


def test_a_program_may_change_work_to_an_interval_of_seconds(shared: Scheduler) -> None:
    chain: list[StepArguments] = [{"name": "import", "action": "import"}]
    asked = {"repeat": "every 5 seconds"}
    for more in ({"action": "import"}, {"steps": chain}):
        task_id = shared.schedule("Import", repeat="every 10 seconds", **more).record.task.id
        assert shared.reschedule(task_id, repeat="every 5 seconds").record.task.repeat == "FREQ=SECONDLY;INTERVAL=5"
        with pytest.raises(InvalidArgument, match="more often than every 1 min"):
            shared.reschedule(task_id, **asked, raw=asked)  # type: ignore[arg-type]  # as a tool passes them
    reminder_id = shared.schedule("Call", repeat="every minute").record.task.id
    with pytest.raises(InvalidArgument, match="more often than every 1 min"):
        shared.reschedule(reminder_id, repeat="every 5 seconds")
    only_reminds: list[StepArguments] = [{"name": "call"}]
    with pytest.raises(InvalidArgument, match="more often than every 1 min"):
        shared.schedule("Call", repeat="every 10 seconds", steps=only_reminds)


class Spread(NamedTuple):
    """A chain of work, and when its first steps start."""

    scheduler: Scheduler
    view: TaskView

    def runs(self) -> list[Run]:
        chain = self.view.chain
        assert chain
        return [self.scheduler.get(step.task_id).record.run for step in chain.steps]

    def delays(self) -> set[timedelta]:
        first = [run for run in self.runs() if run.state is State.SCHEDULED]
        return {run.wake_at - run.scheduled_for for run in first if run.wake_at}


WORK: list[StepArguments] = [
    {"name": "orders", "action": "import"},
    {"name": "goods", "action": "import"},
    {"name": "call", "after": ["orders", "goods"]},
]


def test_the_first_steps_of_a_chain_are_spread_together_in_each_generation(
    shared: Scheduler, store: Store, clock: Clock
) -> None:
    view = shared.schedule("Import", repeat="every day at 9:00", steps=WORK)
    assert "each run starts between 09:00 and 09:02 UTC; jitter '0 s' is exact" in view.warnings
    assert jitter_of(view) == SPREAD
    chain = Spread(shared, view)
    [delay] = chain.delays()
    assert timedelta(0) < delay < SPREAD
    clock.at = HOUR + delay
    for run in chain.runs():
        claim = restarted(store, store.tasks.get("local", run.task_id))
        told = settle(claim, Done("imported"), now=clock(), jitter=0.0).inbox
        assert told
        assert "late" not in told.text
        store.claims.settle([settlement(claim)])
    assert [run.number for run in chain.runs()] == [2, 2, 2]
    assert chain.delays() == {delay}


def test_a_chain_is_spread_by_the_rule_that_it_has_now(shared: Scheduler) -> None:
    view = shared.schedule("Import", repeat="every day at 9:30", steps=WORK)
    chain, chain_id = Spread(shared, view), view.record.task.id
    assert chain.delays() == {timedelta(0)}
    view = shared.reschedule(chain_id, repeat="every day at 9:00")
    assert jitter_of(view) == SPREAD
    [delay] = chain.delays()
    assert timedelta(0) < delay < SPREAD
    shared.act(chain_id, "undo", undo=view.undo)
    assert (jitter_of(shared.get(chain_id)), chain.delays()) == (None, {timedelta(0)})
    exact = shared.schedule("Import", repeat="every day at 9:00", steps=WORK, repeat_policy={"jitter": "0 s"})
    assert Spread(shared, exact).delays() == {timedelta(0)}
    only_reminds: list[StepArguments] = [{"name": "call"}]
    assert Spread(shared, shared.schedule("Call", repeat="every day at 9:00", steps=only_reminds)).delays() == {
        timedelta(0)
    }
