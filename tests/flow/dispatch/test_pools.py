"""The registry of pools: what is declared and changed reaches the queue, and what has been used is remembered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from duetime.scheduler.audit.entry import AuditFilter, AuditKind
from duetime.scheduler.dispatch.placement import Placement
from duetime.scheduler.dispatch.pool_registry import LAST_CHANCE, PoolRegistry
from duetime.scheduler.errors import InvalidArgument, StoreUnavailable
from duetime.scheduler.nodes.pool_publisher import PoolPublisher
from duetime.scheduler.queue import Entry
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.rules.estimates import estimate
from duetime.scheduler.rules.limits.pool import PoolKind
from duetime.scheduler.rules.limits.pool_spec import read_pool
from duetime.scheduler.run_records import ReadyRun
from duetime.scheduler.runtime.loop import STEP_TIMEOUT_S
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.store.pools import PoolNotFound
from duetime.scheduler.task import Tier
from duetime.server.app import build
from duetime.server.settings.model import Settings

from tests import blank
from tests.builders import pool_act
from tests.flow.waiting import eventually

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


class Clock:
    """A clock of the wall and a monotonic one, moved together."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now

    def monotonic(self) -> float:
        return self.now.timestamp()

    def ms(self) -> float:
        return self.now.timestamp() * 1000


class Account:
    """Use of one pool with its time, in place of the store's."""

    def __init__(self, pool: str, used: Sequence[tuple[datetime, float]]) -> None:
        self._pool = pool
        self._used = used

    def first(self, pool: str) -> datetime | None:
        return min(at for at, _ in self._used) if pool == self._pool else None

    def since(self, starts: Mapping[str, datetime]) -> dict[str, float]:
        start = starts[self._pool]
        return {self._pool: sum(units for at, units in self._used if at >= start)}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    blank.make(tmp_path / "duetime.db")
    opened = open_store(f"sqlite:///{tmp_path}/duetime.db", clock=clock, synchronous="OFF")
    yield opened
    opened.close()


@pytest.fixture
def registry(store: Store, clock: Clock) -> PoolRegistry:
    return PoolRegistry(store, zone="Europe/Berlin", clock=clock.monotonic)


@pytest.fixture
def queue(clock: Clock) -> MemoryQueue:
    return MemoryQueue(clock.ms)


@pytest.fixture
def publisher(registry: PoolRegistry, queue: MemoryQueue, clock: Clock) -> PoolPublisher:
    return PoolPublisher(registry, queue, now=clock)


def needing(clock: Clock, **needs: int) -> Entry:
    return Entry("r", clock.ms(), needs=needs)


def admits(queue: MemoryQueue, entry: Entry) -> bool:
    """Let a run try to start, and take it back."""
    queue.put([entry])
    grants = queue.take("w", 1, 30_000).grants
    for grant in grants:
        queue.give_back("w", grant.run_id, grant.token)
    queue.cancel(entry.run_id)
    return bool(grants)


def capacities(queue: MemoryQueue) -> dict[str, float]:
    return {name: use.capacity for name, use in queue.stats().pools.items() if name != LAST_CHANCE}


def test_a_pool_in_the_settings_is_there_for_tasks_and_for_the_queue(
    registry: PoolRegistry, publisher: PoolPublisher, queue: MemoryQueue
) -> None:
    registry.declare({"gpu": {"capacity": 2}, "tokens": {"kind": "budget", "capacity": 100}})
    publisher.step()
    assert registry.pools()["tokens"].zone == "Europe/Berlin"
    assert capacities(queue) == {"gpu": 2, "tokens": 100}


def test_a_change_at_run_time_is_told_and_survives_the_next_start(
    registry: PoolRegistry, publisher: PoolPublisher, queue: MemoryQueue
) -> None:
    registry.declare({"gpu": {"capacity": 2}})
    publisher.step()
    registry.set("gpu", {"capacity": 3})
    registry.declare({"gpu": {"capacity": 2}})
    publisher.step()
    assert capacities(queue) == {"gpu": 3}
    registry.declare({"gpu": {"capacity": 5}})
    assert registry.pools()["gpu"].capacity == 5


def test_the_audit_log_of_the_operators_has_the_pools_that_a_start_declares(tmp_path: Path) -> None:
    given = {
        "database_url": f"sqlite:///{tmp_path}/duetime.db",
        "operator_tenant": "ops",
        "pools": {"gpu": {"capacity": 2}},
    }
    with build(Settings.model_validate(given), via="cli ann"):
        pass
    with build(Settings.model_validate(given), via="cli bob") as app:
        [entry] = app.store.audit.page("ops", AuditFilter(), limit=9).entries
    assert (entry.kind, entry.subject, entry.actor, entry.via) == (
        AuditKind.POOL_SET,
        "gpu",
        "configuration",
        "cli ann",
    )


def test_a_change_is_told_as_soon_as_the_dispatcher_has_seen_it(
    registry: PoolRegistry,
    publisher: PoolPublisher,
    queue: MemoryQueue,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("duetime.scheduler.nodes.pool_publisher.POOL_CHECK_INTERVAL_S", 3600.0)
    store.claims.next_times()
    publisher.loop.start()
    eventually(lambda: publisher._revision == 0, "it has looked once, and sleeps")
    registry.set("gpu", {"capacity": 3})
    store.claims.next_times()
    eventually(lambda: capacities(queue) == {"gpu": 3}, "it is told, far before the next look")
    assert publisher.loop.stop(STEP_TIMEOUT_S)


def test_a_removed_pool_holds_what_needs_it(
    registry: PoolRegistry, publisher: PoolPublisher, queue: MemoryQueue, clock: Clock
) -> None:
    registry.set("gpu", {})
    publisher.step()
    assert admits(queue, needing(clock, gpu=1))
    registry.remove("gpu")
    publisher.step()
    queue.put([needing(clock, gpu=1)])
    assert queue.take("w", 1, 30_000).grants == ()
    found = queue.explain("r")
    assert found is not None
    assert found.shortage is not None
    assert found.shortage.why == "unknown"
    with pytest.raises(PoolNotFound, match="no pool 'gpu'"):
        registry.remove("gpu")


@pytest.mark.parametrize("last", ["settings", "admin"])
def test_a_pool_that_was_removed_while_nobody_ran_is_told_to_a_queue_that_still_has_it(
    registry: PoolRegistry, queue: MemoryQueue, clock: Clock, last: str
) -> None:
    registry.declare({"gpu": {}, "tenant:*": {"capacity": 1}})
    PoolPublisher(registry, queue, now=clock).step()
    assert set(capacities(queue)) == {"gpu"}
    if last == "settings":
        registry.declare({})
    else:
        registry.remove("gpu")
        registry.remove("tenant:*")
    PoolPublisher(registry, queue, now=clock).step()
    assert capacities(queue) == {}
    two = Entry("r", clock.ms(), needs={"tenant:acme": 2})
    assert admits(queue, two)


@pytest.mark.parametrize("quota", ["tenant:*", "tenant:acme"])
def test_a_run_that_waits_under_a_quota_starts_when_the_quota_is_removed_and_not_before(
    registry: PoolRegistry, publisher: PoolPublisher, queue: MemoryQueue, clock: Clock, quota: str
) -> None:
    registry.set(quota, {"capacity": 1})
    publisher.fill()
    placement = Placement(registry.read)
    queue.put([placement.entry(ready(run_id=name), NOW) for name in ("first", "second")])
    assert len(queue.take("w", 2, 30_000).grants) == 1
    registry.remove(quota)
    assert queue.take("w", 2, 30_000).grants == ()
    publisher.step()
    assert len(queue.take("w", 2, 30_000).grants) == 1


def test_a_quota_that_is_declared_while_runs_wait_binds_them_from_the_next_look_on(
    registry: PoolRegistry, publisher: PoolPublisher, queue: MemoryQueue
) -> None:
    publisher.fill()
    waiting = [ready(run_id=f"r{n}") for n in range(5)]
    placement = Placement(registry.read)
    assert queue.put([placement.entry(run, NOW) for run in waiting]) == 5
    registry.set("tenant:*", {"capacity": 2})
    publisher.step()
    assert queue.put([placement.entry(run, NOW) for run in waiting]) == 0, "as maintenance does each half a minute"
    assert len(queue.take("w", 5, 30_000).grants) == 2


def test_a_quota_that_is_declared_again_holds_again(
    registry: PoolRegistry, publisher: PoolPublisher, queue: MemoryQueue
) -> None:
    for told in ({"capacity": 1}, None, {"capacity": 1}):
        if told:
            registry.set("tenant:*", told)
        else:
            registry.remove("tenant:*")
        publisher.step()
    placement = Placement(registry.read)
    queue.put([placement.entry(ready(run_id=name), NOW) for name in ("first", "second")])
    assert len(queue.take("w", 2, 30_000).grants) == 1


def test_a_wrong_declaration_changes_nothing(registry: PoolRegistry) -> None:
    registry.set("gpu", {"capacity": 2})
    with pytest.raises(InvalidArgument, match=r"pools\.gpu\.capacity"):
        registry.set("gpu", {"capacity": -1})
    assert registry.read()["gpu"].capacity == 2


def test_a_row_that_cannot_be_read_leaves_the_other_pools_alone(registry: PoolRegistry, store: Store) -> None:
    registry.set("gpu", {})
    store.pools.put("odd", {"kind": "quantum"}, pool_act("a newer version"))
    assert set(registry.read()) == {"gpu"}


def test_without_a_database_what_was_last_known_of_the_pools_goes_on_to_count(
    registry: PoolRegistry, store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> None:
        raise StoreUnavailable("the database is away")

    registry.set("gpu", {})
    with monkeypatch.context() as outage:
        outage.setattr(store.pools, "all", away)
        with pytest.raises(StoreUnavailable):
            registry.pools()
    assert set(registry.pools()) == {"gpu"}
    clock.now += timedelta(seconds=2)
    with monkeypatch.context() as outage:
        outage.setattr(store.pools, "all", away)
        assert set(registry.pools()) == {"gpu"}


def test_pools_that_did_not_change_are_not_told_again(
    registry: PoolRegistry, publisher: PoolPublisher, queue: MemoryQueue, clock: Clock
) -> None:
    registry.set("gpu", {"capacity": 1})
    publisher.step()
    queue.set_pool("gpu", read_pool("gpu", {"capacity": 7}).limits(NOW))
    publisher.step()
    assert capacities(queue) == {"gpu": 7}
    clock.now += timedelta(hours=25)
    publisher.step()
    assert capacities(queue) == {"gpu": 1}


def test_a_calendar_goes_on_because_its_hours_are_told_each_day(
    registry: PoolRegistry, publisher: PoolPublisher, queue: MemoryQueue, clock: Clock
) -> None:
    registry.set("night", {"kind": "calendar", "capacity": 0, "hours": {"22:00-06:00": 1}, "zone": "UTC"})
    found = []
    for _ in range(60):
        publisher.step()
        found.append((clock.now.hour, admits(queue, needing(clock, night=1))))
        clock.now += timedelta(hours=11, minutes=7)
    assert all(admitted == (hour >= 22 or hour < 6) for hour, admitted in found)
    assert {admitted for _, admitted in found} == {True, False}


def test_hours_are_told_again_when_the_clock_was_set_back(
    registry: PoolRegistry, publisher: PoolPublisher, queue: MemoryQueue, clock: Clock
) -> None:
    registry.set("night", {"kind": "calendar", "capacity": 0, "hours": {"12:00-18:00": 1}, "zone": "UTC"})
    publisher.step()
    assert admits(queue, needing(clock, night=1))
    clock.now -= timedelta(hours=1)
    publisher.step()
    assert not admits(queue, needing(clock, night=1))
    clock.now += timedelta(hours=1)
    assert admits(queue, needing(clock, night=1))


def test_a_rebuilt_queue_knows_what_a_budget_has_seen_and_starts_with_empty_buckets(
    registry: PoolRegistry, publisher: PoolPublisher, queue: MemoryQueue, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.set("tokens", {"kind": "budget", "capacity": 100})
    registry.set("calls", {"kind": "rate", "capacity": 60, "per": "minute"})
    midnight = datetime(2026, 11, 19, 23, 0, tzinfo=UTC)  # in Berlin
    used = [(midnight - timedelta(seconds=1), 10.0), (midnight, 50.0), (clock.now, 40.0)]
    monkeypatch.setattr(registry._store, "usage", Account("tokens", used))
    publisher.fill()
    assert admits(queue, needing(clock, tokens=10))
    assert not admits(queue, needing(clock, tokens=11))
    assert not admits(queue, needing(clock, calls=1))
    clock.now += timedelta(seconds=1)
    assert admits(queue, needing(clock, calls=1))


def test_a_rebuilt_queue_knows_what_started_in_a_sliding_window(
    registry: PoolRegistry, publisher: PoolPublisher, queue: MemoryQueue, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.set("calls", {"kind": "rate", "capacity": 10, "per": "minute", "sliding": True})
    used = [(clock.now - timedelta(seconds=30), 7.0), (clock.now - timedelta(seconds=61), 9.0)]
    monkeypatch.setattr(registry._store, "usage", Account("calls", used))
    publisher.fill()
    for seconds in (0, 59):
        clock.now += timedelta(seconds=seconds)
        assert admits(queue, needing(clock, calls=3))
        assert not admits(queue, needing(clock, calls=4))
    clock.now += timedelta(seconds=2)
    assert admits(queue, needing(clock, calls=10))


@pytest.mark.parametrize(
    ("used", "spent"),
    [
        ((50, 20, 10), 10),
        ((0, 130, 10), 40),
        ((250, 0, 10), 60),
        ((0, 0, 0), 0),
        ((1000, 0, 0, 0, 0, 0, 10), 410),
        ((40, 450, 40, 0, 130, 90, 10), 220),
    ],
)
def test_usage_beyond_a_window_is_still_owed_after_a_restart(
    registry: PoolRegistry, clock: Clock, monkeypatch: pytest.MonkeyPatch, used: tuple[float, ...], spent: float
) -> None:
    clock.now -= timedelta(days=len(used))
    registry.set("tokens", {"kind": "budget", "capacity": 100, "zone": "UTC"})
    clock.now = NOW
    days = [(clock.now - timedelta(days=age), units) for age, units in enumerate(reversed(used))]
    monkeypatch.setattr(registry._store, "usage", Account("tokens", days))
    assert registry.spent(registry.read(), clock.now) == {"tokens": spent}


def test_a_budget_that_is_removed_and_declared_again_is_no_new_budget(
    registry: PoolRegistry, publisher: PoolPublisher, queue: MemoryQueue, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry._store, "usage", Account("tokens", [(NOW, 90.0)]))
    publisher.fill()
    registry.set("tokens", {"kind": "budget", "capacity": 100})
    publisher.step()
    assert admits(queue, needing(clock, tokens=10))
    assert not admits(queue, needing(clock, tokens=11))


def ready(**values: object) -> ReadyRun:
    base = {
        "run_id": "r",
        "task_id": "t",
        "tenant": "acme",
        "scheduled_for": NOW,
        "first_ready_at": NOW,
        "action": "work",
        "crashes": 0,
        "tier": Tier.NORMAL,
        "created_at": NOW,
    }
    return ReadyRun(**{**base, **values})  # type: ignore[arg-type]  # of a table in a test


def test_a_run_needs_a_unit_of_its_tenants_quota_where_there_is_one() -> None:
    assert Placement().entry(ready(needs={"gpu": 1}), NOW).needs == {"gpu": 1}
    quotas = {"tenant:*": read_pool("tenant:*", {"capacity": 4})}
    assert Placement(lambda: quotas).entry(ready(needs={"gpu": 1}), NOW).needs == {"gpu": 1, "tenant:acme": 1}
    odd = Placement(lambda: quotas).entry(ready(tenant="Acme, Inc.\n=1"), NOW)
    assert odd.needs == {"tenant:Acme%2C%20Inc.%0A%3D1": 1}


def test_a_learned_estimate_of_an_action_moves_its_deadline_forward() -> None:
    deadline = NOW + timedelta(minutes=1)
    quick = Placement(estimates=lambda *_: estimate(timedelta(seconds=1), None, None)).key(ready(deadline=deadline))
    slow = Placement(estimates=lambda *_: estimate(timedelta(seconds=30), None, None)).key(ready(deadline=deadline))
    own = Placement(estimates=lambda *_: estimate(timedelta(seconds=1), None, None)).key(
        ready(deadline=deadline, estimate=timedelta(seconds=30))
    )
    assert slow == own < quick


def test_an_action_that_was_slow_for_a_while_is_started_nevertheless() -> None:
    minutes = timedelta(minutes=1)
    run = ready(deadline=NOW + 5 * minutes, drop_at=NOW + 4 * minutes)
    for learned, drop_at in ((2, NOW + 3 * minutes), (5, None), (10, None)):
        placement = Placement(estimates=lambda *_, took=learned * minutes: estimate(took, None, None))
        assert placement.drop_at(run) == drop_at
        assert placement.drop_at(replace(run, estimate=10 * minutes)) == NOW - 5 * minutes


def test_a_run_that_takes_more_of_a_pool_goes_later() -> None:
    pools = {"gpu": read_pool("gpu", {"capacity": 4})}
    keys = [Placement(lambda: pools).key(ready(needs={"gpu": units})) for units in (1, 4)]
    assert keys == sorted(keys)
    assert keys[0] < keys[1]


def test_a_run_on_its_last_chance_waits_a_moment_and_runs_alone() -> None:
    entry = Placement().entry(ready(crashes=2), NOW)
    assert entry.needs == {LAST_CHANCE: 1}
    assert entry.delay > 0


def test_every_kind_of_pool_can_be_told(registry: PoolRegistry, publisher: PoolPublisher, queue: MemoryQueue) -> None:
    registry.set("a", {"kind": "slots", "capacity": 1})
    registry.set("b", {"kind": "rate", "capacity": 2})
    registry.set("c", {"kind": "budget", "capacity": 3})
    registry.set("d", {"kind": "calendar", "capacity": 4, "hours": {"sat 01:00-02:00": 9}})
    publisher.step()
    assert capacities(queue) == {"a": 1, "b": 2, "c": 3, "d": 4}
    assert {pool.kind for pool in registry.pools().values()} == set(PoolKind)


def test_where_runs_stand_is_decided_by_the_pools_as_the_queue_knows_them_without_asking_the_database(
    registry: PoolRegistry, publisher: PoolPublisher, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert registry.known() == {}
    registry.set("gpu", {"capacity": 2})
    publisher.step()
    with monkeypatch.context() as deaf:
        deaf.setattr(store.pools, "all", None)
        assert registry.known()["gpu"].capacity == 2
    registry.set("gpu", {"capacity": 3})
    assert registry.known()["gpu"].capacity == 3
    store.pools.put("gpu", {"kind": "slots", "capacity": 4}, pool_act("another process"))
    publisher.step()
    assert registry.known()["gpu"].capacity == 4
    registry.remove("gpu")
    assert registry.known() == {}
