"""Clashes: occurrences that need more of a pool at one time than it has."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from duetime.scheduler.rules.limits.clashes import MAX_CLASHES, BusySpan, clashes
from duetime.scheduler.rules.limits.pool import Pool, PoolKind
from duetime.scheduler.rules.limits.windows import read_hours
from duetime.scheduler.task import Tier

NOON = datetime(2026, 11, 24, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
GPU = {"gpu": Pool("gpu", capacity=2)}


def span(key: int, minutes: float, needs: Mapping[str, int], takes: float = 60) -> BusySpan:
    start = NOON + minutes * MINUTE
    return BusySpan(key, Tier.NORMAL.rank, needs, start, start + takes * MINUTE)


def found(pools: Mapping[str, Pool], *spans: BusySpan) -> list[tuple[str, float, tuple[int, ...]]]:
    return [(each.name, (each.at - NOON) / MINUTE, each.keys) for each in clashes(spans, pools)]


def test_two_that_overlap_and_do_not_fit_clash_when_the_later_one_starts() -> None:
    assert found(GPU, span(1, 30, {"gpu": 1}), span(0, 0, {"gpu": 2})) == [("gpu", 30, (0, 1))]


@pytest.mark.parametrize(
    "spans",
    [
        (span(0, 0, {"gpu": 1}), span(1, 30, {"gpu": 1})),
        (span(0, 0, {"gpu": 2}), span(1, 60, {"gpu": 2})),
        (span(0, 0, {"gpu": 2}), span(1, 0, {"mail": 2})),
        (span(0, 0, {"gpu": 9}),),
    ],
    ids=["fit together", "one after the other", "another pool", "alone"],
)
def test_a_run_that_fits_does_not_clash(spans: tuple[BusySpan, ...]) -> None:
    assert found(GPU, *spans) == []


def test_three_clash_of_which_any_two_fit() -> None:
    spans = [span(key, 10 * key, {"gpu": 1}) for key in range(3)]
    assert found(GPU, *spans) == [("gpu", 20, (0, 1, 2))]


def test_occurrences_that_join_a_clash_at_its_instant_or_minutes_later_are_one_clash() -> None:
    spans = [span(0, 0, {"gpu": 2}), *(span(key, 10, {"gpu": 1}) for key in (1, 2, 3)), span(4, 20, {"gpu": 1})]
    assert found(GPU, *spans) == [("gpu", 10, (0, 1, 2, 3, 4))]


def test_an_occurrence_after_the_end_of_one_that_clashed_is_another_clash() -> None:
    spans = [span(key, 40 * key, {"gpu": 2}) for key in range(3)]
    assert found(GPU, *spans) == [("gpu", 40, (0, 1)), ("gpu", 80, (1, 2))]


def test_a_key_holds_one_at_a_time_without_a_declaration() -> None:
    needs = {"key:customer-42": 1}
    assert found({}, span(0, 0, needs), span(1, 5, needs)) == [("key:customer-42", 5, (0, 1))]


def test_a_calendar_has_what_its_hours_give_at_that_time() -> None:
    pool = Pool("gpu", PoolKind.CALENDAR, capacity=1, hours=(read_hours("mon-sun 13:00-20:00", 2),))
    early, late = (0, {"gpu": 1}), (70, {"gpu": 1})
    assert found({"gpu": pool}, span(0, *early), span(1, *early)) == [("gpu", 0, (0, 1))]
    assert found({"gpu": pool}, span(0, *late), span(1, *late)) == []


def test_a_rate_has_its_burst_and_what_was_refilled_since() -> None:
    pools = {"api": Pool("api", PoolKind.RATE, capacity=60, per="hour", burst=30)}
    assert found(pools, span(0, 0, {"api": 30}, 1), span(1, 20, {"api": 30}, 1)) == [("api", 20, (0, 1))]
    assert found(pools, span(0, 0, {"api": 30}, 1), span(1, 30, {"api": 30}, 1)) == []


def test_a_sliding_rate_counts_the_starts_of_its_last_period() -> None:
    pools = {"api": Pool("api", PoolKind.RATE, capacity=3, per="hour", sliding=True)}
    assert found(pools, span(0, 0, {"api": 2}, 1), span(1, 59, {"api": 2}, 1)) == [("api", 59, (0, 1))]
    assert found(pools, span(0, 0, {"api": 2}, 1), span(1, 60, {"api": 2}, 1)) == []


def test_a_budget_is_of_one_window() -> None:
    pools = {"tokens": Pool("tokens", PoolKind.BUDGET, capacity=100, per="day")}
    assert found(pools, span(0, 0, {"tokens": 60}, 1), span(1, 600, {"tokens": 60}, 1)) == [("tokens", 600, (0, 1))]
    assert found(pools, span(0, 0, {"tokens": 60}, 1), span(1, 720, {"tokens": 60}, 1)) == []


def test_headroom_is_kept_from_normal_runs() -> None:
    pools = {"gpu": Pool("gpu", capacity=4, headroom=0.5)}
    spans = [span(key, 0, {"gpu": 2}) for key in range(2)]
    assert found(pools, *spans) == [("gpu", 0, (0, 1))]


def test_clashes_come_by_time_and_are_bounded() -> None:
    spans = [span(key, 40 * (50 - key), {"gpu": 2}) for key in range(50)]
    times = [at for _, at, _ in found(GPU, *spans)]
    assert times == sorted(times)
    assert len(times) == MAX_CLASHES
