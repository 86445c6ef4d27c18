"""The log of starts: against every start remembered one by one, and against a provider that counts what reaches it."""

from __future__ import annotations

import heapq
import random
from collections import deque
from datetime import UTC, datetime

import pytest
from duetime.scheduler.rules.limits.admission import Limits, PoolState, advance, available, free_at, release, reserve
from duetime.scheduler.rules.limits.pool_spec import read_pool
from duetime.scheduler.rules.limits.start_log import MAX_LOG_SLOTS, StartLog, add_start, current, remove_start, total
from hypothesis import given
from hypothesis import strategies as st

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
SECOND_MS = 1000.0


def limits_of(capacity: int, **more: int) -> Limits:
    return read_pool("p", {"kind": "rate", "capacity": capacity, "per": "second", "sliding": True, **more}).limits(NOW)


@given(
    window=st.sampled_from([1000.0, 1002.0, 60_002.0]),
    gaps=st.lists(st.tuples(st.floats(0, 40), st.integers(1, 5), st.integers(0, 3)), min_size=1, max_size=400),
)
def test_a_log_never_forgets_a_start_too_early_nor_remembers_it_a_slot_too_long(
    window: float, gaps: list[tuple[float, int, int]]
) -> None:
    log, now, starts = StartLog(), 1.8e12, list[tuple[float, int]]()
    for gap, units, undone in gaps:
        now += gap
        log = add_start(current(log, window, now), now, units, window)
        starts.append((now, units))
        if undone == 0 and len(starts) > 1:
            gone = starts.pop(-2)
            log = remove_start(log, *gone, window)
        longer = window * (1 + 1 / MAX_LOG_SLOTS)
        assert total(log) >= sum(units for at, units in starts if at + window > now)
        assert total(log) <= sum(units for at, units in starts if at + longer >= now - 1e-3)
        assert len(log) <= MAX_LOG_SLOTS + 2
        assert list(log) == sorted(log)


@given(at=st.lists(st.integers(0, 3000), min_size=1, max_size=50))
def test_starts_that_are_told_in_any_order_make_the_same_log(at: list[int]) -> None:
    def logged(times: list[int]) -> StartLog:
        log = StartLog()
        for each in times:
            log = add_start(log, float(each), 1.0, 1000.0)
        return log

    assert logged(at) == logged(sorted(at))


@given(seed=st.integers(0, 10**6), capacity=st.integers(1, 60), burst=st.sampled_from([None, 1, 3]))
def test_no_window_of_the_provider_sees_more_whatever_the_runs_do(seed: int, capacity: int, burst: int | None) -> None:
    """Runs begin up to 0.9 s after their grant, use less or all, and end at any time before their window does."""
    chance = random.Random(seed)
    limits = limits_of(capacity, **({} if burst is None else {"burst": min(burst, capacity)}))
    state, now = PoolState(level=limits.capacity), 1.8e12
    ends: list[tuple[float, str, float, float, int, float]] = []
    arrived: list[tuple[float, float]] = []
    for number in range(300):
        now += chance.choice([0, 0, 1, 7, 100, chance.uniform(0, 700)])
        while ends and ends[0][0] <= now:
            at, run, granted, began, units, used = heapq.heappop(ends)
            state = advance(limits, state, at)
            release(limits, state, run, units, used, granted=granted, began=began)
        state = advance(limits, state, now)
        units = chance.randint(1, min(4, int(limits.capacity)))
        if available(limits, state, 1, now) >= units:
            reserve(limits, state, f"r{number}", units)
            began, used = now + chance.choice([0, 3, chance.uniform(0, 900)]), chance.uniform(0, units)
            arrived.append((began, used))
            heapq.heappush(ends, (chance.uniform(began, now + SECOND_MS), f"r{number}", now, began, units, used))
    for first, _ in arrived:
        assert sum(used for at, used in arrived if first <= at < first + SECOND_MS) <= capacity + 1e-6


def finished_after(limits: Limits, calls: int, in_flight: int, call_ms: float, begin_ms: float) -> float:
    """Return the ms until the last of the calls has ended, when each starts as soon as it may."""
    state, now, left = PoolState(level=limits.capacity), 1.8e12, calls
    began_at, running = now, deque[tuple[float, float]]()
    while left or running:
        while running and running[0][0] <= now:
            _, granted = running.popleft()
            state = advance(limits, state, now)
            release(limits, state, "r", 1, None, granted=granted, began=granted + begin_ms)
        state = advance(limits, state, now)
        while left and len(running) < in_flight and available(limits, state, 3, now) >= 1:
            reserve(limits, state, "r", 1)
            running.append((now + begin_ms + call_ms, now))
            left -= 1
        times = [running[0][0]] if running else []
        if left and len(running) < in_flight:
            at = free_at(limits, state, 1, 3, now)
            assert at is not None
            times.append(at)
        now = min(times, default=now)
    return now - began_at


@pytest.mark.parametrize(("in_flight", "call_ms", "bound"), [(5, 60, 7600), (400, 60, 7060), (50, 1, 7001)])
def test_a_provider_is_used_within_four_hundredths_of_what_it_gives(
    in_flight: int, call_ms: float, bound: float
) -> None:
    """Runs begin 4 ms after their grant, as measured embedded; bounds are for a scheduler that takes no time."""
    assert finished_after(limits_of(50), 400, in_flight, call_ms, 4) <= 1.04 * bound
