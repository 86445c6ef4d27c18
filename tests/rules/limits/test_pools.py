"""Pools as they are declared: what each kind admits, and what a queue is told of it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from duetime.scheduler.errors import InvalidArgument, InvalidArguments
from duetime.scheduler.rules.limits.admission import (
    Kind,
    Limits,
    PoolState,
    advance,
    available,
    capacity,
    most_available,
    reserve,
)
from duetime.scheduler.rules.limits.pool import KEY_POOL, Pool, PoolKind, find_pool, spent_with_debt
from duetime.scheduler.rules.limits.pool_spec import EXAMPLES, read_pool, spec_of
from hypothesis import given
from hypothesis import strategies as st

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)  # a Friday


def ms(moment: datetime) -> float:
    return moment.timestamp() * 1000


def declared(**spec: Any) -> Pool:
    return read_pool("p", spec)


def test_a_pool_is_one_slot_unless_it_says_more() -> None:
    assert read_pool("p", {}) == Pool("p")
    assert declared(capacity=3).limits(NOW).capacity == 3
    assert declared(capacity=3).text() == "3 slots"


@pytest.mark.parametrize("kind", PoolKind)
def test_the_example_of_each_kind_can_be_read_and_written_down_again(kind: PoolKind) -> None:
    import json

    pool = read_pool("p", json.loads(EXAMPLES[kind]))
    assert pool.kind is kind
    assert read_pool("p", spec_of(pool)) == pool


def test_everything_of_a_declaration_survives_being_written_down() -> None:
    breaker = {"failures": 3, "error_rate": 0.4, "samples": 10, "cooldown": 5}
    pool = declared(
        kind="rate", capacity=60, per="second", burst=4, sliding=True, headroom=0.25, latency=2, breaker=breaker
    )
    assert read_pool("p", spec_of(pool)) == pool


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({"kind": "slot"}, "pools.p.kind"),
        ({"capacity": -1}, "pools.p.capacity"),
        ({"capacity": 1.5}, "pools.p.capacity"),
        ({"capacity": True}, "pools.p.capacity"),
        ({"per": "minute"}, "pools.p.per"),
        ({"headroom": 1}, "pools.p.headroom"),
        ({"kind": "rate", "capacity": 10, "burst": 11}, "pools.p.burst"),
        ({"kind": "budget", "capacity": 10, "zone": "Mars/Base"}, "pools.p.zone"),
        ({"kind": "calendar"}, "pools.p.hours"),
        ({"kind": "calendar", "hours": {"lunch": 2}}, "pools.p.hours"),
        ({"kind": "calendar", "hours": {"mon 25:00-26:00": 2}}, "pools.p.hours"),
        ({"kind": "calendar", "hours": {"mon 05:00-06:00": -2}}, "pools.p.hours.mon 05:00-06:00"),
        ({"breaker": {"failures": 0}}, "pools.p.breaker.failures"),
        ({"breaker": {"retries": 3}}, "pools.p.breaker.retries"),
    ],
)
def test_a_wrong_part_is_named_with_what_would_be_right(spec: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        read_pool("p", spec)
    assert raised.value.argument == named
    assert raised.value.accepted
    read_pool("p", json.loads(raised.value.example))


@pytest.mark.parametrize(
    ("spec", "problems", "example"),
    [
        ({"capacity": "three"}, ["it is 'three'"], '{"capacity": 1}'),
        (
            {"kinds": "rate", "capacity": "50", "per": "second", "burst": 60},
            ["it is not known here; did you mean kind", "it is '50'", "it is 60, of a capacity of 50"],
            '{"capacity": 50, "per": "second", "burst": 50, "kind": "rate"}',
        ),
        (
            {"kind": "rates", "capacity": 50, "per": "second", "burst": 60},
            ["'rates' is not one of them", "it is 60, of a capacity of 50"],
            '{"kind": "rate", "capacity": 50, "per": "second", "burst": 50}',
        ),
        ({"kind": "rate", "capacity": 0}, ["it is 0, of a capacity of 0"], '{"kind": "rate", "capacity": 1}'),
        ({"capacity": 2, "breaker": {"failure": 3}}, None, '{"capacity": 2, "breaker": {"failures": 3}}'),
    ],
)
def test_the_example_is_the_whole_declaration_corrected(
    spec: dict[str, Any], problems: list[str] | None, example: str
) -> None:
    found = list[InvalidArgument]()
    try:
        read_pool("p", spec)
    except InvalidArgument as wrong:
        found = [wrong]
    except InvalidArguments as several:
        found = [*several.problems]
    assert problems is None or [each.problem for each in found] == problems
    assert {each.example for each in found} == {example}


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(InvalidArguments) as raised:
        declared(capacity="many", headroom=2, color="red")
    assert [problem.argument for problem in raised.value.problems] == [
        "pools.p.color",
        "pools.p.capacity",
        "pools.p.headroom",
    ]


@pytest.mark.parametrize("name", ["", "a pool", "-x", "x" * 101, "a|b", "a=b", "gpu*", "tenant:", "key:"])
def test_a_name_that_could_not_be_a_key_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="it is not a pool name"):
        read_pool(name, {})


def test_pools_made_on_use_come_from_the_template_of_their_prefix() -> None:
    quota = read_pool("tenant:*", {"capacity": 4})
    assert find_pool({"tenant:*": quota}, "tenant:acme") == quota
    assert find_pool({}, "tenant:acme") is None
    assert find_pool({}, "key:customer-42") == KEY_POOL
    assert find_pool({}, "gpu") is None


def test_headroom_leaves_less_for_the_lower_tiers() -> None:
    pool = declared(capacity=10, headroom=0.2)
    assert [pool.largest(rank) for rank in range(1, 6)] == [10, 10, 8, 8, 8]


@given(
    capacity=st.integers(2, 500),
    burst=st.integers(1, 499),
    gaps=st.lists(st.integers(0, 300), min_size=1, max_size=300),
)
def test_no_sliding_window_sees_more_than_a_sliding_rate_allows(capacity: int, burst: int, gaps: list[int]) -> None:
    pool = read_pool(
        "p", {"kind": "rate", "capacity": capacity, "per": "second", "burst": min(burst, capacity - 1), "sliding": True}
    )
    limits, now, starts = pool.limits(NOW), 0.0, []
    state = PoolState(level=limits.capacity)
    for gap in gaps:
        now += gap
        state = advance(limits, state, now)
        while available(limits, state, 3, now) >= 1:
            reserve(limits, state, "r", 1)
            starts.append(now)
    for first in starts:
        assert sum(first <= start < first + 1000 for start in starts) <= capacity


def test_a_calendar_follows_the_hours_of_its_zone() -> None:
    pool = declared(
        kind="calendar", capacity=1, zone="Europe/Berlin", hours={"mon-fri 22:00-06:00": 10, "sat,sun 0:00-24:00": 20}
    )
    limits = pool.limits(NOW)

    def at(day: int, hour: int) -> float:
        return capacity(limits, ms(datetime(2026, 11, day, hour, 30, tzinfo=UTC)))

    assert (limits.kind, limits.capacity) == (Kind.SLOTS, 1)
    assert [at(20, 20), at(20, 21), at(20, 23), at(21, 4), at(22, 22)] == [1, 10, 20, 20, 20]
    assert [at(23, 0), at(23, 4), at(23, 5), at(23, 20), at(23, 21)] == [1, 1, 1, 1, 10]


@pytest.mark.parametrize(
    ("per", "first", "second"),
    [
        ("hour", "2026-11-20T13:00", "2026-11-20T14:00"),
        ("day", "2026-11-20T23:00", "2026-11-21T23:00"),
        ("week", "2026-11-22T23:00", "2026-11-29T23:00"),
        ("month", "2026-11-30T23:00", "2026-12-31T23:00"),
    ],
)
def test_a_budget_resets_with_each_window_of_its_zone(per: str, first: str, second: str) -> None:
    pool = declared(kind="budget", capacity=5, per=per, zone="Europe/Berlin")
    assert [datetime.fromtimestamp(reset / 1000, UTC) for reset in pool.limits(NOW).resets[:2]] == [
        datetime.fromisoformat(first).replace(tzinfo=UTC),
        datetime.fromisoformat(second).replace(tzinfo=UTC),
    ]
    assert pool.window_starts(NOW, back_to=NOW)[0] <= NOW < datetime.fromisoformat(first).replace(tzinfo=UTC)


@given(days=st.integers(0, 800))
def test_the_windows_of_a_day_follow_each_other_through_changes_of_the_clocks(days: int) -> None:
    pool = declared(kind="budget", capacity=5, per="day", zone="America/New_York")
    now = NOW + timedelta(days=days)
    resets = [datetime.fromtimestamp(reset / 1000, UTC) for reset in pool.limits(now).resets]
    lengths = {after - before for before, after in pairwise(resets)}
    assert lengths <= {timedelta(hours=23), timedelta(hours=24), timedelta(hours=25)}
    [start] = pool.window_starts(now, back_to=now)
    assert pool.window_starts(resets[0], back_to=now) == [resets[0], start]
    assert pool.window_starts(resets[0] - timedelta(seconds=1), back_to=now) == [start]


@given(used=st.lists(st.integers(0, 300), min_size=1, max_size=80), capacity=st.integers(0, 100))
def test_debt_is_computed_from_usage_as_a_living_pool_computes_it(used: list[int], capacity: int) -> None:
    limits = Limits(Kind.BUDGET, capacity, resets=tuple(float(window) for window in range(1, len(used))))
    live = PoolState(at=0.0, spent=used[0])
    for window, units in enumerate(used[1:], 1):
        live = advance(limits, live, float(window))
        live.spent += units
    assert spent_with_debt(lambda age: sum(used[len(used) - 1 - age :]), len(used), capacity) == live.spent


def test_of_thousands_of_windows_few_are_looked_at() -> None:
    asked: set[int] = set()

    def since(age: int) -> float:
        asked.add(age)
        return 0.75 * (age + 1)

    assert spent_with_debt(since, 10_000, 1) == 0.75
    assert len(asked) < 100


@given(capacity=st.integers(1, 10_000), percent=st.integers(0, 90), rank=st.integers(1, 5))
def test_the_needs_that_callers_may_have_are_exactly_those_that_a_queue_can_give(
    capacity: int, percent: int, rank: int
) -> None:
    pool = declared(kind="slots", capacity=capacity, headroom=percent / 100)
    assert pool.largest(rank) == most_available(pool.limits(NOW), rank, NOW.timestamp() * 1000)
