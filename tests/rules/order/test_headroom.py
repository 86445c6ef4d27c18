"""A worker keeps idle threads for urgent runs, in proportion to its size, and never so many that nothing else runs."""

from __future__ import annotations

import pytest
from duetime.scheduler.rules.headroom import HeadroomParts, least_urgent, may_start
from hypothesis import given
from hypothesis import strategies as st

THREADS = st.integers(0, 300)
PARTS = st.builds(HeadroomParts, st.floats(0, 1), st.floats(0, 1))


@pytest.mark.parametrize(
    ("threads", "expected"),
    [
        (0, (0, 0, 0, 0, 0)),
        (1, (0, 0, 0, 0, 0)),
        (2, (0, 0, 0, 0, 0)),
        (4, (0, 0, 0, 0, 0)),
        (8, (0, 0, 1, 1, 1)),
        (16, (0, 1, 2, 2, 2)),
        (32, (0, 2, 4, 4, 4)),
    ],
)
def test_by_default_one_thread_of_16_is_kept_for_critical_runs_and_two_for_critical_and_high_ones(
    threads: int, expected: tuple[int, ...]
) -> None:
    assert HeadroomParts().of(threads) == expected


@given(THREADS, PARTS)
def test_a_run_of_any_tier_starts_on_a_worker_whose_threads_are_all_idle(threads: int, parts: HeadroomParts) -> None:
    headroom = parts.of(threads)
    assert all(may_start(headroom, tier, threads) for tier in range(1, 6)) == (threads > 0)


@given(THREADS, PARTS, st.integers(0, 300))
def test_units_that_a_tier_may_use_every_more_urgent_tier_may_use_too(
    threads: int, parts: HeadroomParts, idle: int
) -> None:
    headroom = parts.of(threads)
    allowed = [may_start(headroom, tier, idle) for tier in range(1, 6)]
    assert allowed == sorted(allowed, reverse=True)
    assert least_urgent(headroom, idle) == sum(allowed)


@given(THREADS, PARTS)
def test_a_critical_run_leaves_no_thread_to_anybody(threads: int, parts: HeadroomParts) -> None:
    assert parts.of(threads)[0] == 0


def test_parts_that_keep_more_for_critical_than_for_both_keep_that_for_both() -> None:
    assert HeadroomParts(critical=0.5, high=0.25).of(8) == (0, 4, 4, 4, 4)
