"""Trends: how many runs of a tier waited, how long, and which deadlines they missed, in each part of some time."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.history.tier_trends import ActionMisses, TierPart
from duetime.scheduler.run_records import Claim, Start
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.store.run_history import trends
from duetime.scheduler.task import State, Tier

from tests.builders import LEASE, NOON, TENANT, Clock, a_task, added, settlement, with_deadline
from tests.contracts.store.dispatch.test_store_plans import plans

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def start(store: Store, run_id: str) -> Claim:
    store.claims.make_ready(limit=99)
    [claim] = store.claims.start([Start(run_id)], worker="w", epoch=None, lease=LEASE)
    return claim


def ran(store: Store, clock: Clock, *, due: int, began: int, ended: int, **values: Any) -> None:
    """Let a run be due, begin and end at so many minutes after noon."""
    clock.at = NOON + due * MINUTE
    record = added(store, clock(), **values)
    clock.at = NOON + began * MINUTE
    claim = start(store, record.run.id)
    clock.at = NOON + ended * MINUTE
    store.claims.settle([settlement(claim)])


def test_a_wait_counts_in_every_part_of_the_time_that_it_reaches_into(store: Store, clock: Clock) -> None:
    ran(store, clock, due=-60, began=-50, ended=-40)
    ran(store, clock, due=-60, began=30, ended=31)
    ran(store, clock, due=31, began=90, ended=91)
    ran(store, clock, due=91, began=91, ended=91, priority=Tier.HIGH)
    clock.at = NOON + 2 * HOUR
    added(store, clock())
    clock.at = NOON + 2 * HOUR + 30 * MINUTE
    found = store.run_history.trends(TENANT, NOON, clock(), HOUR)
    assert found.starts == [NOON, NOON + HOUR, NOON + 2 * HOUR]
    assert found.tiers[Tier.NORMAL] == (
        TierPart((30 + 29) / 60, 90 * MINUTE),
        TierPart(30 / 60, 59 * MINUTE),
        TierPart(1.0, 30 * MINUTE),
    )
    assert [part.longest_wait for part in found.tiers[Tier.HIGH]] == [None, timedelta(0), None]
    assert found.counted_to is None
    assert store.run_history.trends("globex", NOON, clock(), HOUR).tiers[Tier.NORMAL] == (TierPart(),) * 3
    assert store.run_history.trends(None, NOON, clock(), HOUR) == found


def test_a_run_that_is_tried_again_waited_for_its_first_attempt_alone(store: Store, clock: Clock) -> None:
    record = added(store, NOON)
    clock.forward(minutes=6)
    claim = start(store, record.run.id)
    clock.forward(minutes=10)
    store.claims.settle([settlement(claim, State.RETRYING, wake_at=clock())])
    clock.forward(minutes=20)
    store.claims.settle([settlement(start(store, record.run.id))])
    [part] = store.run_history.trends(TENANT, NOON, NOON + HOUR, HOUR).tiers[Tier.NORMAL]
    assert (part.waiting, part.longest_wait) == (0.1, 6 * MINUTE)


def test_deadlines_are_counted_by_tier_and_by_action(store: Store, clock: Clock) -> None:
    for minutes, to, values in (
        (5, State.SUCCEEDED, {}),
        (25, State.SUCCEEDED, {}),
        (5, State.FAILED, {"action": "webhook", "priority": Tier.HIGH}),
    ):
        clock.at = NOON
        task, run = with_deadline(*a_task(NOON, **values), after=10 * MINUTE)
        store.tasks.add(task, run, actor="alice")
        claim = start(store, run.id)
        clock.forward(minutes=minutes)
        store.claims.settle([settlement(claim, to)])
    added(store, NOON)
    found = store.run_history.trends(TENANT, NOON, NOON + HOUR, HOUR)
    counts = {tier: (part.due, part.missed, part.latest) for tier, [part] in found.tiers.items() if part.due}
    assert counts == {Tier.NORMAL: (2, 1, 15 * MINUTE), Tier.HIGH: (1, 1, timedelta(0))}
    assert found.actions == [
        ActionMisses("reminder", 2, 1, 15 * MINUTE),
        ActionMisses("webhook", 1, 1, timedelta(0)),
    ]


def test_trends_read_ranges_of_the_index_alone(tmp_path: Path) -> None:
    with closing(open_store(f"sqlite:///{tmp_path}/duetime.db", clock=Clock())) as store:
        added(store, NOON)
        steps = plans(store, lambda known: known.run_history.trends(TENANT, NOON, NOON + HOUR, HOUR))
    of_runs = [step for step in steps if " runs " in step]
    assert of_runs
    assert [step for step in of_runs if "INDEX runs_by_phase (tenant=? AND current=? AND phase=?" not in step] == []


def test_of_too_many_runs_the_newest_are_counted_and_that_is_told(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trends, "MAX_TREND_RUNS", 2)
    for minute in (10, 20, 30):
        ran(store, clock, due=minute, began=minute, ended=minute)
    found = store.run_history.trends(TENANT, NOON, NOON + HOUR, 30 * MINUTE)
    assert [part.longest_wait for part in found.tiers[Tier.NORMAL]] == [timedelta(0), timedelta(0)]
    assert found.counted_to == NOON + 20 * MINUTE
