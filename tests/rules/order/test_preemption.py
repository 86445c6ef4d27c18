"""Preemption asks the least urgent runs, as many as threads or units are missing, and none twice without progress."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations

import pytest
from duetime.scheduler.rules.headroom import NO_HEADROOM, HeadroomParts
from duetime.scheduler.rules.preemption import (
    MIN_TURN_S,
    YIELD_PATIENCE_S,
    Holder,
    RunningTurn,
    holders_to_ask,
    runs_to_ask,
)
from hypothesis import given
from hypothesis import strategies as st

CRITICAL, HIGH, NORMAL, LOW, BACKGROUND = range(1, 6)
TURN = RunningTurn("r", BACKGROUND, 3.0, polls=True)
HEADROOM = HeadroomParts().of(16)

TURNS = st.lists(
    st.builds(
        RunningTurn,
        st.uuids().map(str),
        st.integers(1, 5),
        st.floats(0, 100),
        st.booleans(),
        st.booleans(),
        st.booleans(),
        st.none() | st.floats(0, 10),
    ),
    unique_by=lambda turn: turn.run_id,
)
TIERS = st.lists(st.integers(1, 5), max_size=20)


def turns(*tiers: int) -> list[RunningTurn]:
    return [replace(TURN, run_id=f"{tier}.{n}", tier=tier) for n, tier in enumerate(tiers)]


def asked(*preemptors: int, of: list[RunningTurn], idle: int = 0) -> list[str]:
    return runs_to_ask(preemptors, of, idle=idle, headroom=NO_HEADROOM)


def test_the_least_urgent_run_is_asked() -> None:
    assert asked(CRITICAL, of=turns(HIGH, BACKGROUND, LOW)) == ["5.1"]


def test_nobody_is_asked_for_a_run_of_the_same_tier() -> None:
    assert asked(NORMAL, of=turns(NORMAL, HIGH)) == []


def test_among_equals_the_one_that_started_last_loses_least() -> None:
    older, newer = turns(BACKGROUND, BACKGROUND)
    assert asked(CRITICAL, of=[older, replace(newer, seconds=1.0)]) == [newer.run_id]


def test_a_handler_that_polls_is_asked_before_one_that_never_did() -> None:
    low, background = turns(LOW, BACKGROUND)
    assert asked(CRITICAL, of=[low, replace(background, polls=False)]) == [low.run_id]
    assert asked(CRITICAL, of=[replace(background, polls=False)]) == [background.run_id]


def test_one_run_gives_way_for_each_that_waits() -> None:
    assert len(asked(CRITICAL, CRITICAL, HIGH, of=turns(*[BACKGROUND] * 9))) == 3
    assert len(asked(CRITICAL, CRITICAL, HIGH, of=turns(*[BACKGROUND] * 9), idle=2)) == 1


def test_a_run_that_has_to_leave_threads_to_others_needs_these_too() -> None:
    many = turns(*[BACKGROUND] * 9)
    assert len(runs_to_ask([CRITICAL], many, idle=0, headroom=HEADROOM)) == 1
    assert len(runs_to_ask([HIGH], many, idle=0, headroom=HEADROOM)) == 2
    assert len(runs_to_ask([NORMAL], many, idle=2, headroom=HEADROOM)) == 1
    assert len(runs_to_ask([CRITICAL, HIGH], many, idle=0, headroom=HEADROOM)) == 3


def test_a_run_asked_a_moment_ago_counts_as_giving_way_and_one_that_did_not_obey_does_not() -> None:
    first, second = turns(BACKGROUND, BACKGROUND)
    assert asked(CRITICAL, of=[replace(first, since_request_s=0.0), second]) == []
    assert asked(CRITICAL, of=[replace(first, since_request_s=YIELD_PATIENCE_S), second]) == [second.run_id]


@pytest.mark.parametrize(
    ("turn", "expected"),
    [
        (replace(TURN, seconds=0.0), ["r"]),
        (replace(TURN, again=True), []),
        (replace(TURN, again=True, progressed=True), ["r"]),
        (replace(TURN, again=True, seconds=MIN_TURN_S), ["r"]),
        (replace(TURN, since_request_s=99.0, progressed=True), []),
    ],
    ids=["first attempt", "started again", "got further", "ran for long", "asked already"],
)
def test_a_run_is_asked_again_only_after_it_got_further(turn: RunningTurn, expected: list[str]) -> None:
    assert asked(CRITICAL, of=[turn]) == expected


def test_only_a_run_whose_handler_polls_is_willing_to_release_units() -> None:
    assert TURN.is_willing
    assert not replace(TURN, polls=False).is_willing
    assert not replace(TURN, since_request_s=99.0).is_willing


def holders(*units: int, tier: int = BACKGROUND) -> list[Holder]:
    return [Holder(f"r{n}", tier, {"gpu": each}, granted=n) for n, each in enumerate(units)]


def test_the_fewest_runs_release_what_is_missing() -> None:
    assert holders_to_ask({"gpu": 2}, CRITICAL, holders(1, 1, 2)) == ["r2"]
    assert holders_to_ask({"gpu": 3}, CRITICAL, holders(1, 2, 2)) == ["r2", "r0"]
    assert holders_to_ask({"gpu": 0.5}, CRITICAL, holders(4, 1)) == ["r1"]


def test_nobody_releases_units_that_do_not_suffice_or_of_a_more_urgent_run() -> None:
    assert holders_to_ask({"gpu": 4}, CRITICAL, holders(1, 2)) == []
    assert holders_to_ask({"gpu": 1, "cpu": 1}, CRITICAL, holders(1, 2)) == []
    assert holders_to_ask({"gpu": 1}, HIGH, holders(1, 2, tier=HIGH)) == []
    assert holders_to_ask({"gpu": 0}, CRITICAL, holders(1)) == []


def test_a_run_that_the_others_make_unnecessary_is_not_asked() -> None:
    most = Holder("most", BACKGROUND, {"a": 1, "b": 1, "c": 1, "d": 1})
    left, right = Holder("left", LOW, {"a": 1, "b": 1, "e": 1}), Holder("right", LOW, {"c": 1, "d": 1, "f": 1})
    missing = dict.fromkeys("abcdef", 1.0)
    assert sorted(holders_to_ask(missing, CRITICAL, [most, left, right])) == ["left", "right"]


POOLS = st.dictionaries(st.sampled_from("abc"), st.integers(1, 5), min_size=1)
HOLDERS = st.lists(
    st.builds(Holder, st.uuids().map(str), st.integers(1, 5), POOLS, st.floats(0, 9)),
    unique_by=lambda holder: holder.run_id,
)


@given(st.dictionaries(st.sampled_from("abc"), st.floats(-2, 12)), st.integers(1, 5), HOLDERS)
def test_the_runs_asked_to_yield_suffice_and_none_is_spare(
    missing: dict[str, float], tier: int, held: list[Holder]
) -> None:
    def suffice(runs: list[Holder]) -> bool:
        return all(units <= sum(run.units.get(pool, 0) for run in runs) for pool, units in missing.items())

    found = holders_to_ask(missing, tier, held)
    able = [run for run in held if run.tier > tier]
    chosen = [run for run in able if run.run_id in found]
    assert len(chosen) == len(set(found)) == len(found)
    assert suffice(chosen) or not (found or suffice(able))
    assert not any(suffice([run for run in chosen if run is not each]) for each in chosen)


@given(st.dictionaries(st.sampled_from("abc"), st.integers(1, 9), min_size=1), HOLDERS.map(lambda runs: runs[:7]))
def test_the_fewest_are_asked_for_one_pool_and_for_several_at_most_a_logarithm_more(
    missing: dict[str, int], held: list[Holder]
) -> None:
    def suffice(runs: Iterable[Holder]) -> bool:
        return all(units <= sum(run.units.get(pool, 0) for run in runs) for pool, units in missing.items())

    found = holders_to_ask({pool: float(units) for pool, units in missing.items()}, 0, held)
    fewest = next((size for size in range(8) if any(map(suffice, combinations(held, size)))), 0)
    gains = [sum(min(units, run.units.get(pool, 0)) for pool, units in missing.items()) for run in held]
    most = 1.0 if len(missing) == 1 else 1 + math.log(max([1, *gains]))
    assert fewest <= len(found) <= most * fewest


def test_for_several_pools_five_may_be_asked_where_two_would_do() -> None:
    halves = [Holder(f"half{units}", BACKGROUND, {"a": units, "b": units}) for units in (32, 16, 8, 4, 2)]
    wholes = [Holder(pool, BACKGROUND, {pool: 62}) for pool in "ab"]
    found = holders_to_ask({"a": 62, "b": 62}, CRITICAL, [*wholes, *halves])
    assert found == [run.run_id for run in halves], "a change of the rule that finds the two is welcome"


@given(TIERS, TURNS, st.integers(0, 16))
def test_never_more_are_asked_than_threads_are_missing_and_never_whoever_may_not(
    preemptors: list[int], running: list[RunningTurn], idle: int
) -> None:
    found = runs_to_ask(preemptors, running, idle=idle, headroom=HEADROOM)
    by_id = {turn.run_id: turn for turn in running}
    assert len(set(found)) == len(found)
    assert len(found) <= max(0, len(preemptors) + max(HEADROOM) - idle)
    assert all(by_id[run_id].may_be_asked and by_id[run_id].tier > min(preemptors) for run_id in found)
