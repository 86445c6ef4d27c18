"""The backlog: how long ready runs of each tier have waited, and how many runs came and went lately."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace

import pytest
from duetime.scheduler import ids
from duetime.scheduler.events import EventKind
from duetime.scheduler.foresight.lateness import BacklogMonitor, report
from duetime.scheduler.history.work_report import Throughput, Waiting
from duetime.scheduler.rules.changes import pause
from duetime.scheduler.run_records import Start
from duetime.scheduler.store import Store, backlog
from duetime.scheduler.task import State, Tier

from tests.builders import NOON, TENANT, Clock, added, cancelled, settlement, started

MINUTE = timedelta(minutes=1)


def test_the_oldest_ready_run_of_each_tier_is_found(store: Store, clock: Clock) -> None:
    added(store, priority=Tier.CRITICAL)
    store.claims.make_ready(limit=9)
    clock.forward(minutes=1)
    for tier in (Tier.CRITICAL, Tier.NORMAL, Tier.NORMAL):
        added(store, priority=tier)
    store.claims.make_ready(limit=9)
    added(store, NOON + timedelta(hours=1))
    assert store.backlog.waiting(clock()) == {
        Tier.CRITICAL: Waiting(2, NOON),
        Tier.NORMAL: Waiting(2, NOON + MINUTE),
    }


def test_a_run_that_comes_back_has_waited_since_its_retry_was_due(store: Store, clock: Clock) -> None:
    claim = started(store)
    store.claims.settle([settlement(claim, State.RETRYING, wake_at=NOON + timedelta(hours=1))])
    clock.forward(hours=1)
    store.claims.make_ready(limit=9)
    clock.forward(minutes=2)
    assert store.backlog.waiting(clock()) == {Tier.NORMAL: Waiting(1, NOON + timedelta(hours=1))}


def test_runs_of_paused_tasks_do_not_wait(store: Store, clock: Clock) -> None:
    record = added(store)
    store.claims.make_ready(limit=9)
    store.tasks.change(TENANT, record.task.id, actor="alice", kind=EventKind.PAUSED, decide=pause)
    assert store.backlog.waiting(clock()) == {}


def test_open_runs_are_counted_by_state_and_tier_without_those_of_paused_tasks(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(store, priority=Tier.HIGH)
    store.claims.settle([settlement(started(store), State.RETRYING, wake_at=NOON + MINUTE)])
    store.claims.settle([settlement(started(store))])
    for hour in range(3):
        added(store, NOON + timedelta(hours=1 + hour))
    paused = added(store, NOON + MINUTE)
    store.tasks.change(TENANT, paused.task.id, actor="alice", kind=EventKind.PAUSED, decide=pause)
    assert store.backlog.paused_runs() == {Tier.NORMAL: 1}
    normal = {(State.RETRYING, Tier.NORMAL): 1, (State.SCHEDULED, Tier.NORMAL): 3}
    assert store.backlog.open_runs() == {(State.RUNNING, Tier.HIGH): 1, **normal}
    monkeypatch.setattr(backlog, "MAX_BACKLOG_RUNS", 2)
    some = {(State.RETRYING, Tier.NORMAL): 1, (State.SCHEDULED, Tier.NORMAL): 1}
    assert store.backlog.open_runs() == {(State.RUNNING, Tier.HIGH): 1, **some}, "those with the next timer"


def test_a_run_that_is_due_waits_though_no_process_makes_it_ready(store: Store, clock: Clock) -> None:
    added(store, NOON + MINUTE)
    paused = added(store, NOON + MINUTE)
    store.tasks.change(TENANT, paused.task.id, actor="alice", kind=EventKind.PAUSED, decide=pause)
    assert store.backlog.waiting(clock()) == {}
    clock.forward(hours=1)
    assert store.backlog.waiting(clock()) == {Tier.NORMAL: Waiting(1, NOON + MINUTE)}


def test_of_a_long_backlog_those_made_first_and_last_are_read(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "MAX_BACKLOG_RUNS", 2)
    made_at = SimpleNamespace(time_ns=lambda: int(clock().timestamp()) * 1_000_000_000)
    monkeypatch.setattr(ids, "time", made_at)
    for tier in (Tier.LOW, Tier.LOW, Tier.NORMAL, Tier.LOW, Tier.CRITICAL):
        added(store, priority=tier)
        store.claims.make_ready(limit=9)
        clock.forward(minutes=1)
    assert store.backlog.waiting(clock()) == {
        Tier.CRITICAL: Waiting(1, NOON + 4 * MINUTE, at_least=True),
        Tier.LOW: Waiting(3, NOON, at_least=True),
    }


def test_runs_that_came_and_went_in_the_last_minutes_are_counted(store: Store, clock: Clock) -> None:
    store.claims.settle([settlement(started(store))])
    clock.forward(minutes=6)
    cancelled(store, added(store, NOON + timedelta(days=1)))  # it was never ready
    claims = [started(store) for _ in range(3)]
    store.claims.settle([settlement(claim) for claim in claims[:2]])
    clock.forward(minutes=2)
    added(store)
    store.claims.make_ready(limit=9)
    assert store.backlog.throughput(clock()) == (
        Throughput(MINUTE, 1, 0, 0),
        Throughput(5 * MINUTE, 4, 3, 2),
        Throughput(15 * MINUTE, 5, 4, 3),
    )


def test_where_much_happens_the_window_is_shorter(store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog, "MAX_BACKLOG_EVENTS", 4)
    for _ in range(3):
        clock.forward(seconds=10)
        added(store)
        store.claims.make_ready(limit=9)
    assert store.backlog.throughput(clock()) == (Throughput(timedelta(seconds=10), 2, 0, 0),)


def test_a_tier_is_late_when_its_oldest_run_has_waited_longer_than_its_patience(store: Store, clock: Clock) -> None:
    for tier in (Tier.HIGH, Tier.NORMAL):
        added(store, priority=tier)
    store.claims.make_ready(limit=9)
    clock.forward(minutes=1)
    found = report(store)
    assert found.late() == ("high: 1 ready, the oldest for 1 min, longer than its patience of 30 s",)
    assert found.lines() == (
        *found.late(),
        "normal: 1 ready, the oldest for 1 min, within its patience",
        "per minute, in the last 1 min, 5 min, 15 min: 2 / 0.4 / 0.13 became ready, 0 / 0 / 0 started, 0 / 0 / 0 ended",
    )


def test_a_report_is_kept_for_five_seconds(store: Store) -> None:
    now = [0.0]
    monitor = BacklogMonitor(store, clock=lambda: now[0])
    first = monitor.report()
    now[0] = 4.9
    assert monitor.report() is first
    now[0] = 5.0
    assert monitor.report() is not first


def test_a_tier_that_was_late_in_one_report_only_is_not_told_to_who_asks_again_and_again(
    store: Store, clock: Clock
) -> None:
    now = [0.0]
    monitor = BacklogMonitor(store, clock=lambda: now[0])

    def late_after(seconds: int) -> list[str]:
        now[0] += seconds
        clock.forward(seconds=seconds)
        return [sentence.partition(":")[0] for sentence in monitor.late()]

    added(store, priority=Tier.CRITICAL)
    store.claims.make_ready(limit=9)
    assert [late_after(seconds) for seconds in (5, 1, 5)] == [[], [], ["critical"]]
    claims = [Start(run.run_id) for run in store.claims.ready(limit=9)]
    store.claims.start(claims, worker="w1", epoch=None, lease=MINUTE)
    assert late_after(5) == []
