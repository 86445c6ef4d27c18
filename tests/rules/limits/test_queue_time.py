"""The time of a queue never goes back, goes on at the pace of the clock, and knows what the clock shows."""

from __future__ import annotations

import pytest
from duetime.scheduler.rules.limits.admission import Kind, Limits
from duetime.scheduler.rules.limits.queue_time import MAX_CLOCK_STEP_MS, QueueTime
from hypothesis import given
from hypothesis import strategies as st

NOW_MS = 1_800_000_000_000.0
HOUR_MS = 3_600_000.0
STEPS = st.lists(st.tuples(st.sampled_from(["passes", "is set"]), st.integers(-10_000_000, 10_000_000)), max_size=40)


def after(*shown: float) -> QueueTime:
    """Return the time of a queue after its clock has shown all this."""
    time = QueueTime(NOW_MS)
    for wall in shown:
        time = time.at(wall)
    return time


@given(STEPS)
def test_it_never_goes_back_and_whatever_passes_passes_in_it(steps: list[tuple[str, int]]) -> None:
    wall, time = NOW_MS, QueueTime(NOW_MS)
    for how, step in steps:
        passes = abs(step) if how == "passes" else 0
        wall += passes if how == "passes" else step
        before, time = time, time.at(wall)
        assert time.now >= before.now + max(0, passes - MAX_CLOCK_STEP_MS)
        assert wall <= time.wall <= wall + MAX_CLOCK_STEP_MS


@pytest.mark.parametrize("back", [MAX_CLOCK_STEP_MS + 1, HOUR_MS, 1000 * HOUR_MS])
def test_when_the_clock_was_set_back_it_goes_on_from_where_it_was(back: float) -> None:
    time = after(NOW_MS + HOUR_MS, NOW_MS + HOUR_MS - back)
    assert (time.now, time.wall) == (NOW_MS + HOUR_MS, NOW_MS + HOUR_MS - back)
    assert time.at(NOW_MS + HOUR_MS - back + 5).now == NOW_MS + HOUR_MS + 5


def test_after_a_small_step_back_it_stands_still_until_the_clock_is_there_again() -> None:
    time = after(NOW_MS - MAX_CLOCK_STEP_MS, NOW_MS - 1)
    assert (time.now, time.wall_lag) == (NOW_MS, 0)
    assert time.at(NOW_MS + 1).now == NOW_MS + 1


def test_it_leaps_forward_with_the_clock() -> None:
    assert after(NOW_MS + HOUR_MS).now == NOW_MS + HOUR_MS


def test_a_window_ends_once_however_often_the_clock_shows_its_end() -> None:
    limits = Limits(Kind.BUDGET, 1, steps=((NOW_MS + 9, 2.0),), resets=(NOW_MS + 9, NOW_MS + 2 * HOUR_MS))
    once = after(NOW_MS + HOUR_MS, NOW_MS).limits(limits)
    assert once.resets == (NOW_MS + 9, NOW_MS + 3 * HOUR_MS)
    assert once.steps == ((NOW_MS + HOUR_MS + 9, 2.0),)
    assert after(NOW_MS + HOUR_MS, NOW_MS, NOW_MS - HOUR_MS).limits(limits).resets == (NOW_MS + 9, NOW_MS + 4 * HOUR_MS)
    assert after(NOW_MS + HOUR_MS, NOW_MS, NOW_MS + 3 * HOUR_MS, NOW_MS).limits(limits).resets == (
        NOW_MS + HOUR_MS + 9,
        NOW_MS + 3 * HOUR_MS,
    )


def test_while_the_clock_was_never_set_back_limits_are_as_they_were_told() -> None:
    limits = Limits(Kind.BUDGET, 1, resets=(NOW_MS + 9,))
    assert after(NOW_MS + HOUR_MS).limits(limits) is limits
