"""The policy at run time: it reaches the queue and the keys of runs that wait, in every process, and can be undone."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace

import pytest
from duetime.scheduler.audit.entry import AuditFilter
from duetime.scheduler.dispatch import rekey
from duetime.scheduler.dispatch.dispatcher import Dispatcher
from duetime.scheduler.dispatch.maintenance import Maintenance
from duetime.scheduler.dispatch.placement import Placement
from duetime.scheduler.dispatch.policy_registry import PolicyRegistry
from duetime.scheduler.dispatch.pool_registry import PoolRegistry
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.nodes.pool_publisher import PoolPublisher
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.rules.headroom import HeadroomParts
from duetime.scheduler.rules.policies.policy import DEFAULT_POLICY
from duetime.scheduler.store import Store
from duetime.scheduler.task import Tier

from tests.builders import Clock, added

ANN = replace(LOCAL, user="ann", via="cli ann")


class Site:
    """Two processes over one database: one that dispatches, and one in which an admin works."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store, self.clock = store, clock
        self.queue = MemoryQueue(lambda: clock().timestamp() * 1000)
        self.registry = PoolRegistry(store)
        self.publisher = PoolPublisher(self.registry, self.queue, now=clock)
        self.publisher.fill()
        placement = Placement(policy=self.registry.policies.policy)
        self.dispatcher = Dispatcher(store, self.queue, placement=placement)
        self.maintenance = Maintenance(store, self.queue, placement=placement, clock=lambda: 0.0)
        self.admin = PolicyRegistry(store)

    def add(self, tier: Tier) -> str:
        run_id = added(self.store, self.clock.at, priority=tier).run.id
        self.dispatcher.step()
        return run_id

    def order(self) -> list[str]:
        return list(self.queue.take("w", 99, 1e6).run_ids)


@pytest.fixture
def site(store: Store, clock: Clock) -> Site:
    return Site(store, clock)


def test_a_change_reaches_the_queue_of_another_process_with_its_version(site: Site) -> None:
    change = site.admin.set({"shares": {"low": 0.12}}, by=ANN, reason="reports were late")
    assert change.version == 1
    assert site.registry.policies.policy() == DEFAULT_POLICY, "until it looks"
    site.publisher.step()
    assert site.queue.stats().policy == 1
    assert site.registry.policies.policy().shares.guaranteed[3] == 0.12


def test_a_rebuilt_queue_has_the_shares_again(site: Site) -> None:
    site.admin.set({"shares": {"low": 0.12}})
    site.publisher.step()
    site.queue.begin_rebuild("me")
    site.publisher.fill()
    site.queue.end_rebuild("me")
    assert site.queue.stats().policy == 1


def test_runs_that_wait_get_new_keys_when_the_patience_changes(site: Site, clock: Clock) -> None:
    low = site.add(Tier.LOW)
    clock.forward(seconds=60)
    normal = site.add(Tier.NORMAL)
    site.maintenance.step()
    site.admin.set({"patience": {"low": "2 minutes"}})
    site.publisher.step()
    site.maintenance.step()
    assert site.order() == [low, normal]


def test_a_look_gives_so_many_new_keys_and_the_next_step_goes_on(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rekey, "MAX_POLICY_KEYS", 2)
    for _ in range(3):
        site.add(Tier.LOW)
    site.maintenance.step()
    moved = Counter[str]()
    rescore = site.queue.rescore

    def counted(run_id: str, key: float) -> bool:
        moved[run_id] += 1
        return rescore(run_id, key)

    monkeypatch.setattr(site.queue, "rescore", counted)
    site.admin.set({"patience": {"low": "2 minutes"}})
    site.publisher.step()
    for _ in range(4):
        site.maintenance.step()
    assert sorted(moved.values()) == [1, 1, 1], "each once"


def test_a_trial_says_what_would_change_and_changes_nothing(site: Site, store: Store) -> None:
    change = site.admin.set({"value": {"high": 10}}, dry_run=True)
    assert (change.differences, change.version) == (("value.high: 8 -> 10",), None)
    assert store.policies.version() == 0


def test_a_change_that_changes_nothing_is_no_version(site: Site, store: Store) -> None:
    assert site.admin.set({"value": {"high": 8}}).version is None
    assert store.policies.version() == 0


def test_a_roll_back_is_a_new_version_with_the_content_of_an_old_one(site: Site, store: Store) -> None:
    for value in (9, 10):
        site.admin.set({"value": {"high": value}}, by=ANN)
    assert site.admin.roll_back(1, by=ANN, reason="too much").differences == ("value.high: 10 -> 9",)
    assert site.admin.roll_back(0).version == 4
    assert site.admin.policy() == DEFAULT_POLICY
    assert [each.version for each in site.admin.history()] == [4, 3, 2, 1]
    with pytest.raises(InvalidArgument, match=r"no version 9. Accepted: 0 to 4"):
        site.admin.roll_back(9)
    told = store.audit.page("local", AuditFilter(kind="policy_restored"), limit=9).entries
    assert [(entry.actor, entry.via, entry.reason) for entry in told] == [
        ("local", None, None),
        ("ann", "cli ann", "too much"),
    ]
    assert told[1].detail == {"changes": ["value.high: 10 -> 9"]}


def test_the_headroom_of_a_worker_is_that_of_the_policy_else_that_of_its_settings(site: Site) -> None:
    headroom = site.registry.policies.headroom(HeadroomParts(critical=0.25, high=0.25))
    assert headroom.of(16) == (0, 4, 4, 4, 4)
    site.admin.set({"headroom": {"critical": 0.5, "high": 0.5}})
    site.publisher.step()
    assert headroom.of(16) == (0, 8, 8, 8, 8)


def test_a_version_that_this_process_cannot_read_leaves_the_last_one_in_force(
    site: Site, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    site.admin.set({"value": {"high": 10}})
    site.publisher.step()
    newer = store.policies.newest(1)[0]
    act = store.audit.page("local", AuditFilter(), limit=1).entries[0]
    store.policies.add({**newer.content, "tempo": {"high": 1}}, act, based_on=1)
    with caplog.at_level(logging.ERROR):
        site.publisher.step()
        site.publisher.step()
    assert site.registry.policies.policy().value[Tier.HIGH] == 10
    assert caplog.text.count("cannot read version 2 of the policy") == 1
