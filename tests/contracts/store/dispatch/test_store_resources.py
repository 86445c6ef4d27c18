"""Pools, what is used of them, workers and estimates: what runs share, as the store keeps it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import cast

import pytest
from duetime.scheduler.audit.entry import AuditEntry, AuditFilter, AuditKind
from duetime.scheduler.events import EventKind
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.records import WorkerProcess
from duetime.scheduler.rules.estimates import Histogram
from duetime.scheduler.rules.limits.pool import Pool
from duetime.scheduler.rules.limits.price import Price
from duetime.scheduler.run_records import Start, Verdict
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.store.pools import StalePool
from duetime.scheduler.store.workers import DrainMode, WorkerNotFound
from duetime.scheduler.task import Json, State
from sqlalchemy.exc import IntegrityError

from tests.builders import LEASE, NOON, TENANT, Clock, added, pool_act, settlement, started

GPU: dict[str, Json] = {"kind": "slots", "slots": 4}
SMALLER: dict[str, Json] = {"kind": "slots", "slots": 2}
DECLARED = pool_act("configuration")


def specs(store: Store) -> dict[str, Mapping[str, Json]]:
    return {pool.name: pool.spec for pool in store.pools.all()}


def at_once(count: int, work: Callable[[int], object]) -> None:
    gate = threading.Barrier(count, timeout=120)

    def run(number: int) -> object:
        gate.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        assert len(list(pool.map(run, range(count)))) == count


def test_a_pool_is_put_replaced_and_removed_and_each_change_raises_the_revision(store: Store, clock: Clock) -> None:
    assert (store.pools.all(), store.pools.revision()) == ([], 0)
    first = store.pools.put("gpu", GPU, pool_act("root"))
    assert (first.spec, first.declared, first.revision, first.updated_by) == (GPU, None, 1, "root")
    clock.forward(minutes=1)
    second = store.pools.put("gpu", SMALLER, pool_act("ann"))
    assert (second.revision, second.updated_at, second.updated_by) == (2, clock.at, "ann")
    assert store.pools.all() == [second]
    assert store.pools.remove("gpu", pool_act("root"))
    assert (store.pools.all(), store.pools.revision()) == ([], 3)
    assert not store.pools.remove("gpu", pool_act("root"))
    assert store.pools.revision() == 3


def test_a_change_of_a_pool_and_its_audit_entry_are_one_transaction_and_what_changes_nothing_has_none(
    store: Store,
) -> None:
    store.pools.put("gpu", GPU, pool_act("root"))
    store.pools.put("gpu", GPU, pool_act("ann"))
    store.pools.remove("other", pool_act("ann"))
    [entry] = store.audit.page(TENANT, AuditFilter(), limit=9).entries
    assert (entry.actor, entry.subject, entry.detail) == ("root", "gpu", GPU)
    refused = replace(pool_act("bob"), kind=cast("AuditKind", None))
    with pytest.raises(IntegrityError, match="kind"):
        store.pools.put("gpu", SMALLER, refused)
    assert specs(store) == {"gpu": GPU}


@pytest.mark.parametrize("based_on", [0, 1, 3])
def test_a_change_of_a_pool_that_is_at_another_revision_is_refused_and_changes_nothing(
    store: Store, based_on: int
) -> None:
    store.pools.put("gpu", GPU, pool_act("root"))
    store.pools.put("gpu", SMALLER, pool_act("root"), based_on=1)
    with pytest.raises(StalePool, match=f"pool 'gpu' is at revision 2, not {based_on}; nothing was changed"):
        store.pools.put("gpu", GPU, pool_act("ann"), based_on=based_on)
    with pytest.raises(StalePool, match="Read it and repeat the call for revision 2"):
        store.pools.remove("gpu", pool_act("ann"), based_on=based_on)
    assert (specs(store), len(store.audit.page(TENANT, AuditFilter(), limit=9).entries)) == ({"gpu": SMALLER}, 2)
    assert store.pools.remove("gpu", pool_act("ann"), based_on=2)
    with pytest.raises(StalePool, match="there is no pool 'gpu'; nothing was changed"):
        store.pools.put("gpu", GPU, pool_act("ann"), based_on=2)
    assert store.pools.put("gpu", GPU, pool_act("ann"), based_on=0).revision == 4


def test_of_changes_of_the_same_revision_at_the_same_moment_one_is_made(url: str) -> None:
    stores = [open_store(url, clock=Clock(), synchronous="OFF") for _ in range(2)]
    first = stores[0].pools.put("gpu", GPU, pool_act("root")).revision

    def change(number: int) -> int:
        try:
            stores[number % 2].pools.put(
                "gpu", {"kind": "slots", "slots": 10 + number}, pool_act("ann"), based_on=first
            )
        except StalePool:
            return 0
        return 1

    made = list[int]()
    at_once(10, lambda number: made.append(change(number)))
    assert (sum(made), len(made)) == (1, 10)
    for store in stores:
        store.close()


def test_a_change_is_seen_by_whoever_looks_what_is_due(store: Store) -> None:
    changes: list[int] = []
    store.pools.on_change = lambda: changes.append(store.pools.revision())
    store.claims.next_times()
    store.pools.put("gpu", GPU, pool_act("root"))
    store.claims.next_times()
    store.claims.next_times()
    store.pools.remove("gpu", pool_act("root"))
    store.claims.next_times()
    assert changes == [0, 1, 2]


def test_putting_what_is_there_already_changes_nothing(store: Store, clock: Clock) -> None:
    first = store.pools.put("api", {"windows": [1, 2.5], "zone": "Europe/Berlin"}, pool_act("root"))
    clock.forward(minutes=1)
    assert store.pools.put("api", {"windows": (1, 2.5), "zone": "Europe/Berlin"}, pool_act("ann")) == first


def test_a_change_of_an_admin_stays_until_configuration_says_something_else(store: Store) -> None:
    assert store.pools.declare({"gpu": GPU, "api": {"rate": 60}}, DECLARED) == ["api", "gpu"]
    assert {pool.updated_by for pool in store.pools.all()} == {"configuration"}
    store.pools.put("gpu", SMALLER, pool_act("root"))
    store.pools.remove("api", pool_act("root"))
    revision = store.pools.revision()
    assert store.pools.declare({"api": {"rate": 60}, "gpu": GPU}, DECLARED) == []
    assert (specs(store), store.pools.revision()) == ({"gpu": SMALLER}, revision)
    assert store.pools.declare({"api": {"rate": 90}, "gpu": GPU}, DECLARED) == ["api"]
    assert specs(store) == {"api": {"rate": 90}, "gpu": SMALLER}


def test_a_pool_that_is_no_longer_declared_goes_and_one_of_an_admin_stays(store: Store) -> None:
    store.pools.put("mine", GPU, pool_act("root"))
    store.pools.declare({"gpu": GPU}, DECLARED)
    assert store.pools.declare({}, DECLARED) == ["gpu"]
    assert specs(store) == {"mine": GPU}
    assert store.pools.declare({"gpu": GPU}, DECLARED) == ["gpu"]


def test_each_pool_that_a_start_changes_has_an_audit_entry_and_no_other_has(store: Store) -> None:
    store.pools.declare({"gpu": GPU, "api": {"rate": 60}}, DECLARED)
    store.pools.declare({"api": {"rate": 60}, "gpu": SMALLER}, DECLARED)
    store.pools.declare({"gpu": SMALLER}, DECLARED)
    entries = store.audit.page(TENANT, AuditFilter(actor="configuration"), limit=9).entries
    assert [(entry.kind, entry.subject, entry.detail) for entry in reversed(entries)] == [
        (AuditKind.POOL_SET, "api", {"rate": 60}),
        (AuditKind.POOL_SET, "gpu", GPU),
        (AuditKind.POOL_SET, "gpu", {**SMALLER, "before": GPU}),
        (AuditKind.POOL_REMOVED, "api", {"before": {"rate": 60}}),
    ]


def test_many_starts_and_changes_at_once_give_each_change_its_own_revision(url: str) -> None:
    stores = [open_store(url, clock=Clock(), synchronous="OFF") for _ in range(2)]
    declared = {f"pool-{number}": {"slots": number} for number in range(5)}

    def work(number: int) -> None:
        stores[number % 2].pools.declare(declared, DECLARED)
        stores[number % 2].pools.put(f"own-{number}", GPU, pool_act("root"))

    at_once(6, work)
    found = stores[0].pools.all()
    assert sorted(pool.revision for pool in found) == list(range(1, 12))
    assert stores[0].pools.revision() == 11
    for store in stores:
        store.close()


def test_the_usage_of_an_attempt_is_stored_with_its_end_and_summed_from_an_instant_on(
    store: Store, clock: Clock
) -> None:
    first = started(store)
    retry = settlement(first, State.RETRYING, wake_at=NOON, used={"tokens": 1200, "usd": 0.03})
    assert store.claims.settle([retry, retry]) == [Verdict.SETTLED, Verdict.FENCED]
    clock.forward(hours=2)
    second = started(store)
    store.claims.settle([settlement(second, used={"tokens": 300.5})])
    starts = {"tokens": NOON, "usd": NOON, "other": NOON}
    assert store.usage.since(starts) == {"tokens": 1500.5, "usd": 0.03, "other": 0.0}
    assert store.usage.since({"tokens": NOON + timedelta(hours=1)}) == {"tokens": 300.5}
    assert store.usage.since({}) == {}
    assert (store.usage.first("tokens"), store.usage.first("other")) == (NOON, None)


def test_the_usage_of_a_template_is_that_of_each_pool_that_was_made_from_it(store: Store, clock: Clock) -> None:
    used = {"tenant:acme": 2, "tenant:b%_b": 3, "Tenant:acme": 5, "tenant": 7, "tenant-x:acme": 11, "tenants:a": 13}
    store.claims.settle([settlement(started(store), used=used)])
    clock.forward(hours=2)
    store.claims.settle([settlement(started(store), used={"tenant:acme": 1, "tenant:new": 4, "zone": 17})])
    everything = {"tenant:acme": 3.0, "tenant:b%_b": 3.0, "tenant:new": 4.0}
    assert store.usage.since({"tenant:*": NOON, "zone": NOON}) == everything | {"zone": 17.0}
    assert store.usage.since({"tenant:*": NOON + timedelta(hours=1)}) == {"tenant:acme": 1.0, "tenant:new": 4.0}
    assert store.usage.since({"client:*": NOON}) == {}
    assert (store.usage.first("tenant:*"), store.usage.first("client:*")) == (NOON, None)


def test_an_attempt_that_crashed_is_charged_for_all_that_it_had_reserved(store: Store, clock: Clock) -> None:
    record = added(store)
    store.claims.make_ready(limit=1)
    store.usage.declared = lambda: {"tokens": Pool("tokens", price=Price(3_000_000, 1_000_000))}
    holds = {"tokens": 900, "key:customer-42": 1}
    store.claims.start([Start(record.run.id, "t1", holds)], worker="w", epoch=None, lease=LEASE)
    clock.forward(seconds=31)
    lost = store.claims.recover_lapsed(epoch=None, held=(), before=clock())
    assert lost == {record.run.id: ("t1", EventKind.CRASHED)}
    assert store.usage.since({"tokens": NOON, "key:customer-42": NOON}) == {"tokens": 900.0, "key:customer-42": 0.0}
    assert store.run_history.detail(TENANT, record.run.id).cost == Decimal("0.0027")


def test_two_first_words_of_one_worker_at_once_make_one_row(url: str) -> None:
    stores = [open_store(url, clock=Clock(), synchronous="OFF") for _ in range(2)]

    def beat(turn: int, number: int) -> None:
        stores[number % 2].workers.beat(WorkerProcess(f"w{turn}", "host", 1, 2, NOON, running=number))

    for turn in range(10):
        at_once(4, partial(beat, turn))
    assert [worker.id for worker in stores[0].workers.all()] == sorted(f"w{turn}" for turn in range(10))
    for store in stores:
        store.close()


def test_a_worker_says_how_it_is_and_is_forgotten(store: Store, clock: Clock) -> None:
    worker = WorkerProcess("w1", "host-a", 4711, threads=8, started_at=NOON, key_ids=("k2", "k1"))
    store.workers.beat(worker)
    other = replace(worker, id="w2", started_at=NOON + timedelta(seconds=1))
    store.workers.beat(other)
    clock.forward(seconds=10)
    store.workers.beat(replace(worker, state="draining", running=3))
    now = replace(worker, state="draining", running=3, seen_at=clock.at)
    assert store.workers.all() == [now, replace(other, seen_at=NOON)]
    assert (store.workers.forget(clock.at), store.workers.all()) == (1, [now])
    store.workers.remove("w1")
    assert store.workers.all() == []


ACT = AuditEntry.by(LOCAL, AuditKind.WORKER_DRAINED, reason="upgrade")
RESUMED = AuditEntry.by(LOCAL, AuditKind.WORKER_RESUMED)


def test_a_worker_reads_with_its_report_whether_it_is_to_drain(store: Store, clock: Clock) -> None:
    first, other = (WorkerProcess(name, "host", 1, 2, NOON) for name in ("w1", "w2"))
    assert (store.workers.beat(first), store.workers.beat(other)) == (None, None)
    assert store.workers.drain("w1", DrainMode.FINISH, ACT) == ["w1"]
    assert (store.workers.beat(first), store.workers.beat(other)) == (DrainMode.FINISH, None)
    assert [each.drain for each in store.workers.all()] == ["finish", None]
    assert store.workers.drain(None, DrainMode.NOW, ACT) == ["w1", "w2"]
    assert store.workers.drain(None, DrainMode.NOW, ACT) == store.workers.drain("w2", DrainMode.NOW, ACT) == []
    assert store.workers.resume("w1", RESUMED) == ["w1"]
    assert store.workers.resume("w1", RESUMED) == []
    assert (store.workers.beat(first), store.workers.beat(other)) == (None, DrainMode.NOW)
    entries = store.audit.page(LOCAL.tenant, AuditFilter(), limit=9).entries
    assert [(each.kind, each.subject, each.reason) for each in reversed(entries)] == [
        (AuditKind.WORKER_DRAINED, "w1", "upgrade"),
        (AuditKind.WORKER_DRAINED, "w1", "upgrade"),
        (AuditKind.WORKER_DRAINED, "w2", "upgrade"),
        (AuditKind.WORKER_RESUMED, "w1", None),
    ]
    with pytest.raises(
        WorkerNotFound, match=r"'mcp:acme/bot' is an external worker, .*revoke its key\. The list of API keys"
    ):
        store.workers.drain("mcp:acme/bot", DrainMode.FINISH, ACT)
    with pytest.raises(WorkerNotFound, match="'w3'"):
        store.workers.drain("w3", DrainMode.FINISH, ACT)
    with pytest.raises(WorkerNotFound):
        store.workers.resume("w3", RESUMED)


def test_a_worker_whose_row_was_forgotten_drains_on(store: Store, clock: Clock) -> None:
    worker = WorkerProcess("w1", "host", 1, 2, NOON, drain="finish")
    store.workers.beat(worker)
    clock.forward(minutes=11)
    store.workers.forget(clock())
    assert store.workers.beat(worker) is DrainMode.FINISH


def test_the_runs_that_a_worker_holds_are_counted_whatever_it_reported_last(store: Store) -> None:
    assert store.workers.active_runs() == {}
    first, _ = started(store), started(store)
    assert store.workers.active_runs() == {first.worker: 2}
    store.claims.settle([settlement(first)])
    assert store.workers.active_runs() == {first.worker: 1}


def test_estimates_that_many_learn_at_once_add_up(url: str) -> None:
    stores = [open_store(url, clock=Clock(), synchronous="OFF") for _ in range(2)]
    at_once(6, lambda number: stores[number % 2].estimates.add({(TENANT, "report"): [2.0, 2.0], ("b", "x"): [1.0]}))
    stores[0].estimates.add({})
    found = stores[1].estimates.get([(TENANT, "report"), ("b", "x"), ("b", "unknown")])
    assert {of: histogram.samples for of, histogram in found.items()} == {(TENANT, "report"): 12, ("b", "x"): 6}
    median = found[TENANT, "report"].quantile(0.5)
    assert median == pytest.approx(2.0, rel=0.2)
    expected = Histogram.empty().merged([2.0] * 12)
    assert sum(found[TENANT, "report"].weights.values()) == pytest.approx(sum(expected.weights.values()), abs=0.01)
    for store in stores:
        store.close()


def test_everything_is_there_after_opening_again(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/duetime.db"
    first = open_store(url)
    first.pools.put("gpu", GPU, pool_act("root"))
    first.estimates.add({(TENANT, "report"): [3.0]})
    first.close()
    again = open_store(url)
    assert specs(again) == {"gpu": GPU}
    assert again.estimates.get([(TENANT, "report")])[TENANT, "report"].samples == 1
    again.close()
