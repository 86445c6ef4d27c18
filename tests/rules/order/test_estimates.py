"""The duration of an action is learned from its runs, to a fifth, and follows when it changes."""

from __future__ import annotations

import json
import math
import random
from datetime import timedelta

import pytest
from duetime.scheduler.rules.estimates import (
    BUCKET_COUNT,
    BUCKETS_PER_OCTAVE,
    HALF_LIFE_SAMPLES,
    MAX_DURATION_S,
    MIN_DURATION_S,
    MIN_SAMPLES,
    UNKNOWN_ESTIMATE,
    Estimate,
    Histogram,
    estimate,
)
from duetime.scheduler.task import Json
from hypothesis import given
from hypothesis import strategies as st

BUCKET_WIDTH_RATIO = 2 ** (1 / BUCKETS_PER_OCTAVE)
DURATIONS = st.floats(MIN_DURATION_S, MAX_DURATION_S)
SAMPLES = st.lists(DURATIONS, min_size=1, max_size=60)
PARTS = st.floats(0, 1)


def learned(*seconds: float) -> Histogram:
    return Histogram.empty().merged(seconds)


def weighted_quantile(samples: list[float], p: float) -> tuple[float, float]:
    """Compute it from the samples themselves: the smallest and largest value that answers to `p`, give or take 1e-9."""
    weights = [0.5 ** ((len(samples) - 1 - place) / HALF_LIFE_SAMPLES) for place in range(len(samples))]
    ordered = sorted(zip(samples, weights, strict=True))
    below = 0.0
    fitting = []
    for value, weight in ordered:
        if below <= p * sum(weights) + 1e-9 and p * sum(weights) <= below + weight + 1e-9:
            fitting.append(value)
        below += weight
    return min(fitting), max(fitting)


@given(SAMPLES, PARTS)
def test_a_quantile_is_off_by_the_width_of_a_bucket_at_most(samples: list[float], p: float) -> None:
    found = learned(*samples).quantile(p)
    lowest, highest = weighted_quantile(samples, p)
    assert found is not None
    assert lowest / BUCKET_WIDTH_RATIO * (1 - 1e-9) <= found <= highest * BUCKET_WIDTH_RATIO * (1 + 1e-9)


@given(SAMPLES, PARTS, PARTS)
def test_a_quantile_never_falls_as_p_grows(samples: list[float], one: float, other: float) -> None:
    low, high = (learned(*samples).quantile(p) for p in sorted([one, other]))
    assert low is not None
    assert high is not None
    assert MIN_DURATION_S <= low <= high <= MAX_DURATION_S


@pytest.mark.parametrize("p", [-1.0, 2.0])
def test_parts_outside_of_0_to_1_are_its_ends(p: float) -> None:
    histogram = learned(1, 2, 4)
    assert histogram.quantile(p) == histogram.quantile(min(max(p, 0), 1))


@pytest.mark.parametrize(("slower", "p", "within"), [(8.0, 0.9, 35), (8.0, 0.5, 205), (0.125, 0.9, 670)])
def test_the_estimate_follows_when_a_handler_becomes_slower_or_faster(slower: float, p: float, within: int) -> None:
    draw = random.Random(3)
    before = learned(*(draw.uniform(0.9, 1.1) for _ in range(5000)))
    after = before.merged(draw.uniform(0.9, 1.1) * slower for _ in range(within))
    found = after.quantile(p)
    assert found is not None
    assert 0.9 * slower / BUCKET_WIDTH_RATIO <= found <= 1.1 * slower * BUCKET_WIDTH_RATIO


def test_one_outlier_does_not_move_the_p90_of_many() -> None:
    steady = learned(*[1.0] * 100)
    assert steady.quantile(0.9) == pytest.approx(steady.merged([3600]).quantile(0.9), rel=0.02)


@given(SAMPLES, SAMPLES)
def test_histograms_of_two_processes_add_up_to_that_of_all_samples(first: list[float], second: list[float]) -> None:
    apart = learned(*first).merged_with(learned(*second))
    together = learned(*first, *second)
    assert apart.samples == together.samples == len(first) + len(second)
    assert apart.weights == pytest.approx(together.weights)


@given(st.lists(st.floats(), max_size=20))
def test_anything_may_be_fed_and_only_durations_are_taken(samples: list[float]) -> None:
    histogram = learned(*samples)
    assert histogram.samples == sum(1 for each in samples if math.isfinite(each) and each >= 0)
    assert all(0 <= bucket < BUCKET_COUNT for bucket in histogram.weights)


def test_a_time_below_a_millisecond_or_above_a_day_counts_at_the_ends() -> None:
    assert learned(0.0).weights.keys() == learned(MIN_DURATION_S).weights.keys()
    assert learned(1e9).weights.keys() == learned(MAX_DURATION_S).weights.keys()
    assert learned(1e9).quantile(1) == MAX_DURATION_S


def test_without_samples_there_is_no_quantile() -> None:
    assert Histogram.empty().quantile(0.5) is None


# --- storing ----------------------------------------------------------------------------------------------------------


@given(SAMPLES)
def test_a_stored_histogram_reads_back_with_the_same_quantiles(samples: list[float]) -> None:
    histogram = learned(*samples)
    back = Histogram.from_json(json.loads(json.dumps(histogram.to_json())))
    assert back.samples == histogram.samples
    assert back.weights == pytest.approx(histogram.weights, abs=0.0006)


def test_a_long_history_takes_little_room() -> None:
    draw = random.Random(5)
    long = learned(*(MIN_DURATION_S * 2 ** draw.uniform(0, 26) for _ in range(10_000)))
    assert len(json.dumps(long.to_json())) < 2000
    forgotten = learned(1.0).merged([60.0] * 5000)
    assert [*forgotten.to_json()["weights"]] == [*learned(60.0).to_json()["weights"]]


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.integers(-5, 300).map(str) | st.text(max_size=5)
ALMOST = st.fixed_dictionaries(
    {
        "per_octave": st.just(BUCKETS_PER_OCTAVE),
        "samples": JSONS | st.integers(1, 9),
        "weights": st.dictionaries(KEYS, JSONS),
    }
)


@given(JSONS | ALMOST)
def test_no_stored_garbage_breaks_the_reading(stored: Json) -> None:
    histogram = Histogram.from_json(stored)
    found = histogram.quantile(0.9)
    assert (found is None) == (histogram.weights == {}) == (histogram.samples == 0)
    assert found is None or MIN_DURATION_S <= found <= MAX_DURATION_S


def test_an_action_that_always_takes_the_same_is_still_known_after_storing_it() -> None:
    steady = learned(*[60.0] * 20_000)
    assert Histogram.from_json(steady.to_json()).quantile(0.5) == pytest.approx(steady.quantile(0.5))


def test_the_readable_part_of_a_stored_histogram_is_kept() -> None:
    stored = learned(1, 1, 1).to_json()
    torn = stored | {"weights": stored["weights"] | {"x": 3, "5": "many", "6": -1, "7": math.nan, "9999": 1, "8": 1e9}}
    assert Histogram.from_json(torn) == Histogram.from_json(stored)
    assert Histogram.from_json(stored | {"per_octave": 8}) == Histogram.empty()


# --- whose word counts ------------------------------------------------------------------------------------------------

SECOND = timedelta(seconds=1)
LEARNED = learned(*[10.0] * MIN_SAMPLES)


def test_the_callers_own_word_comes_first() -> None:
    assert estimate(3 * SECOND, LEARNED, 5 * SECOND) == Estimate(3 * SECOND, 3 * SECOND)


def test_a_learned_estimate_comes_before_the_declared_one() -> None:
    found = estimate(None, LEARNED, 5 * SECOND)
    assert 10 / BUCKET_WIDTH_RATIO < found.p50.total_seconds() <= found.p90.total_seconds() < 10 * BUCKET_WIDTH_RATIO


@pytest.mark.parametrize("history", [None, Histogram.empty(), learned(*[10.0] * (MIN_SAMPLES - 1))])
def test_too_little_history_leaves_the_handlers_word_and_then_a_second(history: Histogram | None) -> None:
    assert estimate(None, history, 5 * SECOND) == Estimate(5 * SECOND, 5 * SECOND)
    assert estimate(None, history, None) == Estimate(UNKNOWN_ESTIMATE, UNKNOWN_ESTIMATE) == Estimate(SECOND, SECOND)


@given(SAMPLES.filter(lambda samples: len(samples) >= MIN_SAMPLES))
def test_nine_cases_of_ten_never_take_less_than_half_of_them(samples: list[float]) -> None:
    found = estimate(None, learned(*samples), None)
    assert timedelta(0) < found.p50 <= found.p90
