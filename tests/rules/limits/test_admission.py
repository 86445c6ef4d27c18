"""Admission to a pool, by hand-made cases and by properties that hold of any of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from duetime.scheduler.rules.limits.admission import (
    THROTTLE_CHECK_INTERVAL_MS,
    THROTTLE_RECOVERY_MS,
    Kind,
    Limits,
    PoolState,
    advance,
    available,
    capacity,
    free_at,
    most_available,
    release,
    reserve,
)
from hypothesis import given
from hypothesis import strategies as st

NOW_MS = 1_800_000_000_000.0
KINDS = st.sampled_from(Kind)
TIERS = st.integers(1, 5)
UNITS = st.integers(1, 50)
FACTORS = st.floats(0.05, 1)


@st.composite
def pools(draw: st.DrawFn) -> tuple[Limits, PoolState]:
    """Any pool as it may stand now."""
    kind, size = draw(KINDS), draw(st.integers(0, 100))
    limits = Limits(
        kind,
        size,
        refill=draw(st.floats(1e-5, 1.0)) if kind is Kind.RATE else 0.0,
        headroom=draw(st.floats(0, 0.9)),
        steps=tuple((NOW_MS + at, float(then)) for at, then in sorted(draw(st.dictionaries(OFFSETS, UNITS)).items())),
        resets=tuple(NOW_MS + at for at in sorted(draw(st.sets(OFFSETS)))),
    )
    state = PoolState(
        at=NOW_MS,
        used=draw(st.integers(0, 120)),
        spent=draw(st.integers(0, 120)) if kind is Kind.BUDGET else 0.0,
        level=draw(st.floats(-100, size)),
        factor=draw(FACTORS),
        stopped_until=draw(st.sampled_from([0.0, NOW_MS - 1, NOW_MS + 500])),
        open_until=draw(st.sampled_from([0.0, NOW_MS - 1, NOW_MS + 500])),
        probe=draw(st.sampled_from(["", "r"])),
    )
    return limits, state


OFFSETS = st.integers(1, 100_000)


@given(pools(), TIERS)
def test_a_lower_tier_never_gets_more(pool: tuple[Limits, PoolState], tier: int) -> None:
    limits, state = pool
    assert available(limits, state, tier, NOW_MS) <= available(limits, state, max(1, tier - 1), NOW_MS) + 1e-9


@given(pools(), TIERS, UNITS)
def test_a_reservation_given_back_unused_leaves_a_pool_as_it_was(
    pool: tuple[Limits, PoolState], tier: int, units: int
) -> None:
    limits, state = pool
    changed = replace(state)
    reserve(limits, changed, "x", units)
    assert available(limits, changed, tier, NOW_MS) <= max(0, available(limits, state, tier, NOW_MS)) + 1e-9
    release(limits, changed, "x", units, 0.0)
    assert available(limits, changed, tier, NOW_MS) == pytest.approx(available(limits, state, tier, NOW_MS))
    assert changed.used == state.used


@given(pools(), st.integers(0, 200_000), st.integers(0, 200_000))
def test_looking_at_a_state_twice_is_looking_once_later(
    pool: tuple[Limits, PoolState], first: int, second: int
) -> None:
    limits, state = pool
    steady = replace(state, factor=1.0)
    twice = advance(limits, advance(limits, steady, NOW_MS + first), NOW_MS + first + second)
    once = advance(limits, steady, NOW_MS + first + second)
    assert (twice.spent, twice.factor) == (once.spent, once.factor)
    assert twice.level == pytest.approx(once.level)


@given(pools(), TIERS, UNITS)
def test_time_helps_when_it_is_said_to_or_brings_the_next_answer_nearer(
    pool: tuple[Limits, PoolState], tier: int, units: int
) -> None:
    """Following the answers leads to enough, or to None, in a bounded number of steps."""
    limits, state = pool
    now = NOW_MS
    for _ in range(800):
        if units <= available(limits, advance(limits, state, now), tier, now):
            return
        at = free_at(limits, advance(limits, state, now), units, tier, now)
        if at is None:
            return
        assert at > now
        now = at
    pytest.fail("it is looked at for ever")


@given(pools(), TIERS, UNITS)
def test_where_no_time_helps_no_time_does(pool: tuple[Limits, PoolState], tier: int, units: int) -> None:
    limits, state = pool
    if units > available(limits, state, tier, NOW_MS) and free_at(limits, state, units, tier, NOW_MS) is None:
        for later in (1.0, 1e4, 1e6, 1e9):
            assert units > available(limits, advance(limits, state, NOW_MS + later), tier, NOW_MS + later)


def test_a_bucket_fills_up_to_its_size_and_pays_its_debt_first() -> None:
    limits = Limits(Kind.RATE, 10, refill=0.01)
    empty = PoolState(at=NOW_MS, level=-5)
    assert free_at(limits, empty, 1, 3, NOW_MS) == NOW_MS + 600
    assert advance(limits, empty, NOW_MS + 600).level == pytest.approx(1)
    assert advance(limits, empty, NOW_MS + 1e9).level == 10


@pytest.mark.parametrize(("tier", "left"), [(1, 10), (2, 10), (3, 8), (4, 8), (5, 8)])
def test_headroom_is_for_critical_and_high(tier: int, left: float) -> None:
    assert most_available(Limits(Kind.SLOTS, 10, headroom=0.2), tier, NOW_MS) == left


def test_the_capacity_of_a_step_holds_from_then_on() -> None:
    limits = Limits(Kind.SLOTS, 1, steps=((NOW_MS, 5), (NOW_MS + 10, 0)))
    assert [capacity(limits, NOW_MS + offset) for offset in (-1, 0, 9, 10, 99)] == [1, 5, 5, 0, 0]


def test_over_use_of_a_budget_is_carried_from_window_to_window() -> None:
    limits = Limits(Kind.BUDGET, 10, resets=(NOW_MS + 1, NOW_MS + 2, NOW_MS + 3))
    state = PoolState(at=NOW_MS, spent=24)
    assert [advance(limits, state, NOW_MS + passed).spent for passed in range(4)] == [24, 14, 4, 0]


def test_throttling_recovers_by_itself_and_at_the_latest_in_a_minute() -> None:
    limits, state = Limits(Kind.SLOTS, 10), PoolState(at=NOW_MS, factor=0.5)
    assert free_at(limits, state, 6, 1, NOW_MS) == NOW_MS + THROTTLE_CHECK_INTERVAL_MS
    assert advance(limits, state, NOW_MS + THROTTLE_RECOVERY_MS / 4).factor == pytest.approx(0.75)
    assert advance(limits, state, NOW_MS + THROTTLE_RECOVERY_MS / 2).factor == 1


def test_a_throttled_pool_of_one_still_admits_one() -> None:
    assert available(Limits(Kind.SLOTS, 1), PoolState(factor=0.1), 1, NOW_MS) == 1


def test_the_first_run_after_a_breakers_pause_is_its_probe_and_no_other_starts_before_its_end() -> None:
    limits, state = Limits(Kind.SLOTS, 5), PoolState(at=NOW_MS, open_until=NOW_MS)
    assert available(limits, state, 1, NOW_MS - 1) == 0
    assert available(limits, state, 1, NOW_MS) == 5
    reserve(limits, state, "probe", 1)
    assert (state.probe, available(limits, state, 1, NOW_MS)) == ("probe", 0)
    release(limits, state, "probe", 1, None)
    assert available(limits, state, 1, NOW_MS) == 5


def test_a_hold_ends_when_its_run_has_what_it_needs() -> None:
    state = PoolState(hold="r", hold_until=5)
    reserve(Limits(Kind.SLOTS, 5), state, "other", 1)
    assert state.hold == "r"
    reserve(Limits(Kind.SLOTS, 5), state, "r", 1)
    assert (state.hold, state.hold_until) == ("", 0)
