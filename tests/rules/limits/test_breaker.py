"""Breakers open and close as they say, throttling is in proportion, and neither runs away."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from duetime.scheduler.rules.limits.admission import Kind, Limits, PoolState
from duetime.scheduler.rules.limits.breaker import (
    CUT_INTERVAL_MS,
    MAX_COOLDOWN_DOUBLINGS,
    MAX_CUT_RATIO,
    MIN_THROTTLE_RATIO,
    Report,
    learn,
)
from hypothesis import given
from hypothesis import strategies as st

NOW_MS = 1_800_000_000_000.0
COOLDOWN_MS = 1000.0
LIMITS = Limits(Kind.SLOTS, 10, failures=3, error_rate=0.5, samples=10, cooldown=COOLDOWN_MS, latency=100)
OK, FAILED, BUSY = Report("p"), Report("p", ok=False), Report("p", ok=False, throttled=True)

REPORTS = st.lists(
    st.tuples(
        st.floats(0, 5000),
        st.builds(
            Report, st.just("p"), st.booleans(), st.booleans(), retry_after=st.floats(0, 1e5), latency=st.floats(0, 1e4)
        ),
    )
)


def taught(
    reports: Iterable[Report],
    state: PoolState | None = None,
    now: float = NOW_MS,
    jitter: float = 0,
    *,
    probed: bool = False,
) -> PoolState:
    state = state or PoolState(at=NOW_MS)
    for report in reports:
        learn(LIMITS, state, report, now, jitter, probed=probed)
    return state


@given(REPORTS, st.floats(0, 1), st.booleans())
def test_the_state_stays_sound_after_any_report(
    reports: list[tuple[float, Report]], jitter: float, probed: bool
) -> None:
    state, now = PoolState(at=NOW_MS), NOW_MS
    longest = COOLDOWN_MS * 2**MAX_COOLDOWN_DOUBLINGS * 1.5
    for passed, report in reports:
        now += passed
        learn(LIMITS, state, report, now, jitter, probed=probed)
        assert MIN_THROTTLE_RATIO <= state.factor <= 1
        assert state.open_until <= now + longest
        assert 0 <= state.errors <= 1
        assert state.failing < LIMITS.failures


def test_failures_in_a_row_open_it_and_one_answer_resets_the_row() -> None:
    assert taught([FAILED, FAILED, OK, FAILED, FAILED]).open_until == 0
    assert taught([FAILED, FAILED, OK, FAILED, FAILED, FAILED]).open_until == NOW_MS + COOLDOWN_MS


def test_a_part_of_failures_opens_it_only_when_enough_were_seen() -> None:
    half = [FAILED, OK] * 4
    assert taught(half).open_until == 0
    assert taught([*half, FAILED, FAILED]).open_until == NOW_MS + COOLDOWN_MS


def test_few_failures_among_many_answers_do_not() -> None:
    assert taught([FAILED, OK, OK, OK] * 100).open_until == 0


@pytest.mark.parametrize("trips", range(8))
def test_each_failing_probe_doubles_the_pause_up_to_a_limit(trips: int) -> None:
    state = PoolState(at=NOW_MS, open_until=NOW_MS, trips=trips, probe="r")
    learn(LIMITS, state, FAILED, NOW_MS, 0.0, probed=True)
    assert state.open_until == NOW_MS + COOLDOWN_MS * 2 ** min(trips, MAX_COOLDOWN_DOUBLINGS)
    assert (state.trips, state.probe) == (trips + 1, "")


def test_a_probe_that_is_answered_closes_it_and_the_next_pause_is_short_again() -> None:
    state = taught([OK], PoolState(at=NOW_MS, open_until=NOW_MS, trips=4, probe="r"), probed=True)
    assert (state.open_until, state.trips, state.probe) == (0, 0, "")
    assert taught([FAILED] * 3, state).open_until == NOW_MS + COOLDOWN_MS


@pytest.mark.parametrize("report", [OK, FAILED])
def test_an_answer_from_before_it_opened_says_nothing(report: Report) -> None:
    state = taught([FAILED] * 3)
    before = (state.open_until, state.trips, state.good, state.failing, state.seen)
    taught([report], state, now=NOW_MS + COOLDOWN_MS - 1)
    assert (state.open_until, state.trips, state.good, state.failing, state.seen) == before


@pytest.mark.parametrize("report", [OK, FAILED])
def test_while_one_probes_no_other_answer_says_anything(report: Report) -> None:
    state = PoolState(at=NOW_MS, open_until=NOW_MS, trips=1, probe="r")
    taught([report] * 30, state)
    assert state == PoolState(at=NOW_MS, open_until=NOW_MS, trips=1, probe="r")


def test_jitter_prolongs_a_pause_by_half_at_most() -> None:
    assert taught([FAILED] * 3, jitter=1.0).open_until == NOW_MS + 1.5 * COOLDOWN_MS


def test_without_a_breaker_nothing_opens() -> None:
    state = PoolState(at=NOW_MS)
    for _ in range(50):
        learn(Limits(Kind.SLOTS, 1), state, FAILED, NOW_MS, 0.0, probed=False)
    assert state.open_until == 0


@pytest.mark.parametrize(("good", "bad", "left"), [(9, 1, 0.9), (3, 1, 0.75), (0, 1, MAX_CUT_RATIO), (99, 1, 0.99)])
def test_a_cut_is_as_deep_as_the_part_that_was_refused_and_half_at_most(good: int, bad: int, left: float) -> None:
    assert taught([OK] * good + [BUSY] * bad).factor == pytest.approx(left)


def test_a_call_sent_before_a_cut_does_not_cut_again() -> None:
    state = taught([BUSY] * 30)
    assert state.factor == 0.5
    taught([BUSY], state, now=NOW_MS + CUT_INTERVAL_MS - 1)
    assert state.factor == 0.5
    taught([BUSY], state, now=NOW_MS + CUT_INTERVAL_MS)
    assert state.factor == 0.25


def test_it_never_cuts_to_nothing() -> None:
    state = PoolState(at=NOW_MS)
    for second in range(100):
        taught([BUSY], state, now=NOW_MS + second * CUT_INTERVAL_MS)
    assert state.factor == MIN_THROTTLE_RATIO


def test_the_longest_pause_that_a_provider_asked_for_counts() -> None:
    asked = [Report("p", throttled=True, retry_after=after) for after in (500, 9000, 100)]
    assert taught(asked).stopped_until == NOW_MS + 9000


def test_busy_is_not_broken() -> None:
    assert taught([BUSY] * 50).open_until == 0


@pytest.mark.parametrize(("latency", "left"), [(100, 1.0), (125, 0.8), (1000, MAX_CUT_RATIO)])
def test_slow_answers_cut_in_proportion(latency: float, left: float) -> None:
    assert taught([Report("p", latency=latency)]).factor == pytest.approx(left)
