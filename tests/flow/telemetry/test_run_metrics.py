"""Metrics of runs: what each event of a run counts, and that no label says more than it may."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.events import EventKind
from duetime.scheduler.run_records import Claim, EndedRun, Settlement
from duetime.scheduler.runtime.notifier import RunEvent, RunNotifier
from duetime.scheduler.store import Store
from duetime.scheduler.task import State, Tier
from duetime.scheduler.worker.threads.preemption import GAVE_WAY
from duetime.server.telemetry.metrics.labels import BoundedNames, PoolNames
from duetime.server.telemetry.metrics.run_metrics import RunMetrics
from prometheus_client import CollectorRegistry

from tests.builders import NOON, Clock, settlement, started

REMINDER = {"tier": "normal", "action": "reminder"}


class Bench:
    """Metrics that are told of runs."""

    def __init__(self, clock: Clock, actions: int = 20) -> None:
        self.registry = CollectorRegistry()
        pools = PoolNames(20, declared=lambda: {"gpu", "tenant:*"})
        self.metrics = RunMetrics(self.registry, action=BoundedNames(actions), pool=pools, now=clock)
        self.notifier = RunNotifier(subscribers=[self.metrics])

    def settle(self, claim: Claim, to: State = State.SUCCEEDED, **values: Any) -> Settlement:
        end = settlement(claim, to, **values)
        self.notifier.settled([end])
        return end

    def value(self, name: str, labels: Mapping[str, str] = REMINDER) -> float | None:
        return self.registry.get_sample_value(f"duetime_{name}", dict(labels))


@pytest.fixture
def bench(clock: Clock) -> Bench:
    return Bench(clock)


def test_a_start_counts_how_long_after_it_was_due_it_came(bench: Bench, store: Store, clock: Clock) -> None:
    clock.forward(seconds=3)
    claim = started(store, NOON, priority=Tier.HIGH)
    bench.notifier.started([claim])
    assert bench.value("attempts_started_total", {"tier": "high", "action": "reminder"}) == 1
    assert bench.value("dispatch_latency_seconds_sum", {"tier": "high"}) == 3
    assert bench.value("run_wait_seconds_sum", {"tier": "high"}) == 0, "it became ready at the look that found it"


def test_a_later_attempt_counts_as_a_start_and_not_as_a_latency(bench: Bench, store: Store) -> None:
    claim = started(store)
    bench.notifier.started([replace(claim, run=replace(claim.run, attempt=2))])
    assert bench.value("attempts_started_total") == 1
    assert bench.value("dispatch_latency_seconds_count", {"tier": "normal"}) == 0


@pytest.mark.parametrize(
    ("to", "values", "counted"),
    [
        (State.SUCCEEDED, {}, {"runs_total": "succeeded"}),
        (State.RETRYING, {}, {"retries_total": None}),
        (State.FAILED, {"dead_letter": True}, {"runs_total": "failed", "dead_letters_total": None}),
        (State.SUSPENDED, {"outcome": "yielded", "reason": f"{GAVE_WAY}: half done"}, {"preemptions_total": None}),
        (State.SUSPENDED, {"outcome": "yielded", "reason": "the worker stopped"}, {}),
        (State.CANCELLED, {}, {"runs_total": "cancelled"}),
    ],
)
def test_each_end_of_an_attempt_counts_what_it_was(
    bench: Bench, store: Store, to: State, values: dict[str, Any], counted: dict[str, str | None]
) -> None:
    end = bench.settle(started(store), to, **values)
    assert bench.value("attempts_total", {**REMINDER, "outcome": end.outcome}) == 1
    for name in ("runs_total", "retries_total", "dead_letters_total", "preemptions_total"):
        state = counted.get(name)
        labels = {**REMINDER, "state": state} if state else REMINDER
        assert (bench.value(name, labels) or 0) == int(name in counted), name


@pytest.mark.parametrize(
    ("to", "late", "counted"),
    [
        (State.SUCCEEDED, -1, (0, None)),
        (State.SUCCEEDED, 90, (1, 90)),
        (State.FAILED, -1, (1, 0)),
        (State.EXPIRED, -1, (1, 0)),
    ],
)
def test_a_deadline_is_met_by_a_success_in_time_alone(
    bench: Bench, store: Store, to: State, late: int, counted: tuple[float | None, float | None]
) -> None:
    claim = started(store)
    bench.settle(replace(claim, run=replace(claim.run, deadline=NOON - timedelta(seconds=late))), to)
    assert bench.value("deadlines_total") == 1
    assert (bench.value("deadlines_missed_total"), bench.value("deadline_lateness_seconds_sum")) == counted


def test_a_cancelled_run_has_neither_met_nor_missed_its_deadline(bench: Bench, store: Store, clock: Clock) -> None:
    claim = started(store)
    bench.settle(replace(claim, run=replace(claim.run, deadline=clock.at)), State.CANCELLED)
    assert bench.value("deadlines_total") == 0


@pytest.mark.parametrize(("state", "deadlines"), [(State.FAILED, 1), (State.CANCELLED, 0)])
def test_a_run_that_no_attempt_ended_counts_by_its_state_and_its_deadline_if_it_failed(
    bench: Bench, state: State, deadlines: int
) -> None:
    bench.notifier.ended([EndedRun("r_1", Tier.NORMAL, "reminder", state, NOON, None)])
    assert bench.value("runs_total", {**REMINDER, "state": state}) == 1
    assert (bench.value("deadlines_total"), bench.value("deadlines_missed_total")) == (deadlines, deadlines)
    assert bench.value("attempts_total", {**REMINDER, "outcome": state}) is None


def test_units_that_were_reserved_and_not_used_are_wasted(bench: Bench, store: Store) -> None:
    claim = replace(started(store), reserved={"gpu": 10, "tenant:acme": 1, "forgotten": 5})
    bench.settle(claim, used={"gpu": 4.0, "tenant:acme": 1.0, "forgotten": 6.0})
    found = {
        pool: [bench.value(f"pool_{what}_units_total", {"pool": pool}) for what in ("reserved", "used", "wasted")]
        for pool in ("gpu", "tenant:*", "other")
    }
    assert found == {"gpu": [10, 4, 6], "tenant:*": [1, 1, 0], "other": [5, 6, 0]}


def test_the_costs_of_attempts_add_up(bench: Bench, store: Store) -> None:
    bench.settle(started(store), used={"tokens": 5.0}, costs={"tokens": 2_700, "usd": 1_250_000})
    bench.settle(started(store), used={"tokens": 5.0}, costs={"tokens": 2_700})
    bench.settle(started(store), used={"gpu": 5.0})
    assert bench.value("cost_total") == pytest.approx(1.2554)


def test_a_crash_counts_though_nobody_knows_what_follows(bench: Bench) -> None:
    bench.notifier.happened([RunEvent(EventKind.CRASHED, "r_1")])
    assert bench.value("crashes_total", {}) == 1


def test_actions_beyond_the_limit_are_counted_together(clock: Clock, store: Store) -> None:
    bench = Bench(clock, actions=2)
    for action in ("reminder", "webhook", "resize", "import", "resize"):
        bench.settle(started(store, action=action))
    actions = ("reminder", "webhook", "other")
    found = [
        bench.value("runs_total", {"tier": "normal", "action": action, "state": "succeeded"}) for action in actions
    ]
    assert found == [1, 1, 3]


def test_known_actions_are_told_apart_whatever_ran_first() -> None:
    name = BoundedNames(2, ["webhook", "reminder", "resize"])
    assert [name(each) for each in ("zebra", "webhook", "resize", "reminder")] == [
        "other",
        "other",
        "resize",
        "reminder",
    ]


def test_a_pool_of_a_tenant_or_a_customer_is_named_by_its_template() -> None:
    name = PoolNames(9, declared=lambda: {"gpu", "api:*", "tenant:acme"}, tenants=["globex"])
    found = {
        "gpu": "gpu",
        "tenant:acme": "tenant:*",
        "tenant:globex": "tenant:globex",
        "key:customer-42": "key:*",
        "api:eu": "api:*",
        "customer:acme": "other",
        "unknown": "other",
    }
    assert {pool: name(pool) for pool in found} == found


def test_counters_of_known_actions_begin_at_zero_so_that_prometheus_sees_the_first_increase(bench: Bench) -> None:
    bench.metrics.expect(["reminder"])
    names = ("attempts_started", "retries", "dead_letters", "deadlines", "deadlines_missed")
    assert [bench.value(f"{name}_total") for name in names] == [0, 0, 0, 0, 0]
