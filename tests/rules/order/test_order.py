"""One number per run orders as the law recomputed at every instant does, and no term of it runs away."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.rules.order import (
    MAX_COST_RATIO,
    MIN_NODE_RATIO,
    MIN_TIME_ALLOWED,
    PATIENCE,
    VALUE_WEIGHT,
    KeyFacts,
    cost_term,
    drop_at,
    order_key,
    penalty,
    unblock_bonus,
)
from duetime.scheduler.rules.time.times import parse_duration
from duetime.scheduler.task import Penalty, Tier
from hypothesis import given
from hypothesis import strategies as st

from tests.search import examples

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
SPANS = st.timedeltas(timedelta(0), timedelta(days=2))
TIERS = st.sampled_from(Tier)
WAITING = st.dictionaries(TIERS, st.integers(0, 10**6))
COSTS = st.floats(0, 1)
EFFORTS = st.floats(0, 1e6)
VALUES = st.none() | st.floats(0, 1e9)


def key_of(tier: Tier, first_ready: datetime = NOW, *, value: float | None = None, **facts: Any) -> float:
    return order_key(KeyFacts(first_ready, **facts), tier, value=value)


@dataclass(frozen=True)
class Waiting:
    """The law's view of one run that waits."""

    id: int
    ready: datetime
    tier: Tier
    deadline: datetime | None = None
    p90: timedelta = SECOND
    unblocks: dict[Tier, int] = field(default_factory=dict)
    cost: float = 0.0

    def key(self) -> float:
        facts = KeyFacts(self.ready, self.deadline, self.p90, cost=self.cost, unblocks=self.unblocks)
        return order_key(facts, self.tier)

    def seconds_left(self, now: datetime) -> float:
        """Compute the law at one instant: the smaller of laxity and patience left, less the bonus, plus the cost."""
        patience_left = PATIENCE[self.tier] - (now - self.ready)
        laxity = self.deadline - now - self.p90 if self.deadline else timedelta.max
        least = min(patience_left, laxity)
        waited = now - self.ready
        span = max(least + waited, timedelta(0))
        effort = max(self.cost, MIN_NODE_RATIO) * self.p90.total_seconds()
        change = cost_term(effort, VALUE_WEIGHT[self.tier]) - unblock_bonus(self.unblocks)
        return (least + span * change).total_seconds()


RUNS = st.builds(
    Waiting,
    id=st.integers(0, 10**6),
    ready=SPANS.map(lambda span: NOW + span),
    tier=TIERS,
    deadline=st.none() | st.timedeltas(timedelta(0), timedelta(days=4)).map(lambda span: NOW + span),
    p90=st.timedeltas(timedelta(0), timedelta(hours=2)),
    unblocks=WAITING,
    cost=COSTS,
)


def some(count: int, draw: random.Random) -> list[Waiting]:
    def one(number: int) -> Waiting:
        ready = NOW + draw.uniform(0, 20_000) * SECOND
        due = ready + draw.uniform(60, 9000) * SECOND if draw.random() < 0.6 else None
        behind = {draw.choice([*Tier]): draw.randrange(5)}
        return Waiting(number, ready, draw.choice([*Tier]), due, draw.uniform(1, 60) * SECOND, behind, draw.random())

    return [one(number) for number in range(count)]


def test_the_key_orders_2000_runs_as_the_law_recomputed_at_60_instants() -> None:
    draw = random.Random(11)
    runs = some(2000, draw)
    by_key = [run.id for run in sorted(runs, key=lambda run: (run.key(), run.id))]
    for _ in range(60):
        now = NOW + draw.uniform(0, 60_000) * SECOND
        assert [run.id for run in sorted(runs, key=lambda run: (run.seconds_left(now), run.id))] == by_key


@given(RUNS, RUNS, st.timedeltas(timedelta(days=-3), timedelta(days=30)))
def test_of_any_two_runs_the_key_says_what_the_law_says_at_any_instant(
    one: Waiting, other: Waiting, later: timedelta
) -> None:
    difference = one.seconds_left(NOW + later) - other.seconds_left(NOW + later)
    assert (one.key() - other.key()) / 1000 == pytest.approx(difference, abs=1e-5)


@given(RUNS, SPANS)
def test_a_later_deadline_never_comes_earlier(run: Waiting, later: timedelta) -> None:
    deadline = run.deadline or NOW

    def key(when: datetime | None) -> float:
        return key_of(run.tier, run.ready, deadline=when, p90=run.p90, cost=run.cost)

    assert key(deadline) <= key(deadline + later) <= key(None)


@given(RUNS, SPANS)
def test_the_run_that_could_start_first_comes_first(run: Waiting, later: timedelta) -> None:
    keys = [key_of(run.tier, moment, cost=run.cost) for moment in (run.ready, run.ready + later)]
    assert keys == sorted(keys)


def test_each_tier_is_more_patient_and_worth_less_than_the_one_above() -> None:
    keys = [key_of(tier) for tier in Tier]
    assert keys == sorted(set(keys))
    assert [*VALUE_WEIGHT.values()] == sorted({*VALUE_WEIGHT.values()}, reverse=True)
    assert [*VALUE_WEIGHT] == [*PATIENCE] == [*Tier]


def test_the_key_is_in_milliseconds_since_1970() -> None:
    now = NOW.timestamp() * 1000
    instant = partial(key_of, p90=timedelta(0))
    assert instant(Tier.HIGH) == now + PATIENCE[Tier.HIGH].total_seconds() * 1000
    assert instant(Tier.LOW, deadline=NOW + 90 * SECOND) == now + 90_000
    later = key_of(Tier.LOW, deadline=NOW + 90 * SECOND, p90=30 * SECOND, value=1e12)
    assert later == pytest.approx(now + 60_000, abs=1e-3)


def test_a_background_run_that_waited_long_enough_goes_before_a_critical_one_of_now() -> None:
    old = key_of(Tier.BACKGROUND, NOW - 1.5 * PATIENCE[Tier.BACKGROUND])
    assert old < key_of(Tier.CRITICAL)


def test_another_attempt_costs_no_age() -> None:
    """A retry keeps first_ready: it stands where the first attempt stood, before what became ready in between."""
    first_ready, between = NOW, NOW + 5 * SECOND
    retried = key_of(Tier.NORMAL, first_ready)
    assert retried < key_of(Tier.NORMAL, between)


def test_a_soft_run_past_its_drop_at_has_its_patience_only() -> None:
    missed = NOW + SECOND
    late = key_of(Tier.LOW, deadline=missed, p90=10 * SECOND, late=True)
    assert late == key_of(Tier.LOW, p90=10 * SECOND)
    assert key_of(Tier.LOW, deadline=missed, p90=10 * SECOND) < late


# --- the bonus and the cost -----------------------------------------------------------------------------------------


@given(WAITING, TIERS, st.integers(1, 1000))
def test_the_bonus_grows_with_what_waits_and_stays_below_one(unblocks: dict[Tier, int], tier: Tier, more: int) -> None:
    now, then = unblock_bonus(unblocks), unblock_bonus({**unblocks, tier: unblocks.get(tier, 0) + more})
    assert 0 <= now < then < 1


def test_a_waiting_run_of_a_higher_tier_gives_more() -> None:
    bonuses = [unblock_bonus({tier: 1}) for tier in Tier]
    assert bonuses == sorted(set(bonuses), reverse=True)
    assert unblock_bonus({}) == unblock_bonus({Tier.CRITICAL: 0}) == 0


def test_the_values_of_a_policy_weigh_what_waits() -> None:
    doubled = {tier: 2 * value for tier, value in VALUE_WEIGHT.items()}
    assert unblock_bonus({Tier.LOW: 1}, doubled) == unblock_bonus({Tier.LOW: 1})
    assert unblock_bonus({Tier.LOW: 1}, {**VALUE_WEIGHT, Tier.LOW: 4.0}) == unblock_bonus({Tier.NORMAL: 1})


@given(EFFORTS, EFFORTS, st.floats(0, 1e9), st.floats(0, 1e9))
def test_the_cost_grows_with_effort_falls_with_value_and_is_bounded(
    effort: float, more: float, value: float, worth: float
) -> None:
    low, high = sorted([effort, more])
    poor, rich = sorted([value, worth])
    assert 0 <= cost_term(low, rich) <= cost_term(high, rich) * (1 + 1e-9)
    assert cost_term(high, rich) <= cost_term(high, poor) * (1 + 1e-9) <= MAX_COST_RATIO * (1 + 1e-9)


def test_a_run_that_takes_nothing_pays_nothing() -> None:
    assert cost_term(0, 0) == cost_term(0, 16) == 0
    place = partial(key_of, Tier.LOW, p90=timedelta(0))
    assert place(cost=1) == place(cost=0)


@pytest.mark.parametrize(("cost", "same"), [(7.0, 1.0), (-1.0, 0.0), (0.0, MIN_NODE_RATIO)])
def test_a_cost_counts_from_a_thread_to_a_whole_pool(cost: float, same: float) -> None:
    one, other = (key_of(Tier.LOW, cost=each) for each in (cost, same))
    assert one == other


def test_of_two_equal_runs_the_shorter_and_the_smaller_goes_first() -> None:
    place = partial(key_of, Tier.NORMAL)
    assert place(p90=SECOND, cost=0.5) < place(p90=60 * SECOND, cost=0.5)
    assert place(p90=SECOND, cost=0.1) < place(p90=SECOND, cost=0.9)


@given(RUNS, VALUES)
def test_no_run_comes_before_its_first_ready_nor_long_after_its_latest_start(run: Waiting, value: float | None) -> None:
    place = partial(key_of, run.tier, run.ready, deadline=run.deadline, p90=run.p90)
    key = place(unblocks=run.unblocks, cost=run.cost, value=value)
    ready = run.ready.timestamp() * 1000
    latest = ready + PATIENCE[run.tier].total_seconds() * 1000
    if run.deadline:
        latest = min(latest, (run.deadline - run.p90).timestamp() * 1000)
    span = max(latest - ready, 0)
    assert min(ready, latest) - 1e-3 <= key <= latest + MAX_COST_RATIO * span + 1e-3


def test_a_stated_value_replaces_that_of_the_tier() -> None:
    keys = [key_of(Tier.LOW, cost=0.5, value=value) for value in (100, 2, None, 0)]
    assert keys == sorted(keys)
    assert keys[1] == keys[2]
    assert keys[0] < keys[1] < keys[3]


# --- ties, drops and penalties ----------------------------------------------------------------------------------------


def test_a_run_is_dropped_when_half_of_its_kind_would_not_finish_any_more() -> None:
    assert drop_at(NOW, 30 * SECOND) == NOW - 30 * SECOND


@pytest.mark.parametrize("kind", Penalty)
@given(late=st.timedeltas(timedelta(days=-30), timedelta(0)), allowed=SPANS)
@examples(20)
def test_being_in_time_costs_nothing(kind: Penalty, late: timedelta, allowed: timedelta) -> None:
    assert penalty(kind, late, allowed) == 0


@pytest.mark.parametrize(
    ("kind", "late", "allowed", "cost"),
    [
        (Penalty.NONE, 3600, 600, 0),
        (Penalty.STEP, 0.001, 600, 1),
        (Penalty.STEP, 3600, 600, 1),
        (Penalty.LINEAR, 300, 600, 0.5),
        (Penalty.LINEAR, 1200, 600, 2),
        (Penalty.LINEAR, 30, 1, 0.5),
        (Penalty.LINEAR, 30, -5, 0.5),
    ],
)
def test_being_late_costs_what_its_kind_says(kind: Penalty, late: float, allowed: float, cost: float) -> None:
    assert penalty(kind, late * SECOND, allowed * SECOND) == cost


def test_the_smallest_allowance_is_a_minute() -> None:
    assert timedelta(minutes=1) == MIN_TIME_ALLOWED


# --- the page ---------------------------------------------------------------------------------------------------------


def test_the_page_on_ordering_shows_patience_and_value_of_each_tier() -> None:
    page = (Path(__file__).parents[3] / "docs/ordering.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| (\d+) \|$", page, re.MULTILINE)
    assert {Tier(tier): parse_duration(patience) for tier, patience, _ in rows} == PATIENCE
    assert {Tier(tier): float(value) for tier, _, value in rows} == VALUE_WEIGHT
