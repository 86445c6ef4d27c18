"""A failing run is tried again later and later, spread out, and never more often than its policy says."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

import pytest
from duetime.scheduler.outcomes import Retry
from duetime.scheduler.rules.retry import (
    MAX_RETRY_AFTER,
    attempt_in_words,
    ceiling,
    is_sound,
    next_attempt,
    retries_in_words,
    retry_after,
    retry_policy,
)
from duetime.scheduler.task import RetryPolicy, Run, State
from hypothesis import given
from hypothesis import strategies as st

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
POLICIES = st.builds(
    RetryPolicy,
    max_attempts=st.integers(1, 100),
    backoff=st.timedeltas(timedelta(milliseconds=1), timedelta(days=1)),
    max_backoff=st.timedeltas(timedelta(days=1), timedelta(days=30)),
)


def delay(failures: int, policy: RetryPolicy, *, jitter: float = 1.0, after: timedelta | None = None) -> timedelta:
    moment = next_attempt(Retry("x", after), failures=failures, policy=policy, now=NOW, jitter=jitter)
    assert moment is not None
    return moment - NOW


def test_the_mean_delay_doubles_from_the_backoff() -> None:
    policy = RetryPolicy(max_attempts=10)
    assert [delay(n, policy, jitter=0.5).total_seconds() for n in range(1, 6)] == [1, 2, 4, 8, 16]
    assert [delay(n, policy).total_seconds() for n in range(1, 6)] == [2, 4, 8, 16, 32]


@pytest.mark.parametrize(
    ("members", "means_h"),
    [
        ({"backoff_seconds": 3600}, [1, 1, 1]),
        ({"backoff_seconds": 7200}, [2, 2, 2]),
        ({"backoff_seconds": 900}, [0.25, 0.5, 0.5]),
        ({"backoff_seconds": 3600, "max_backoff_seconds": 14_400}, [1, 2, 2]),
    ],
)
def test_a_backoff_that_is_given_alone_is_not_cut_by_the_usual_longest_pause(
    members: dict[str, int], means_h: list[float]
) -> None:
    policy = retry_policy({"max_attempts": 4, **members})
    assert is_sound(policy)
    assert [delay(n, policy, jitter=0.5).total_seconds() / 3600 for n in (1, 2, 3)] == means_h


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"max_attempts": 1}, "it is not tried again after a failure"),
        ({"max_attempts": 2, "backoff_seconds": 60}, "it is tried again up to 1 time, about 1 min apart"),
        ({"max_attempts": 4, "backoff_seconds": 3600}, "it is tried again up to 3 times, about 1 h apart"),
        ({"max_attempts": 4, "backoff_seconds": 60}, "it is tried again up to 3 times, about 1 min to 4 min apart"),
    ],
)
def test_a_policy_is_said_by_its_retries_and_their_mean_pauses(members: dict[str, int], words: str) -> None:
    assert retries_in_words(retry_policy(members)) == words


@pytest.mark.parametrize(
    ("state", "attempt", "failures", "words"),
    [
        (State.RUNNING, 1, 0, "attempt 1 of 5"),
        (State.RUNNING, 3, 2, "attempt 3 of 5"),
        (State.RETRYING, 2, 2, "attempt 3 of 5"),
        (State.RETRYING, 4, 2, "attempt 5 of 7"),  # two of the four gave way, which does not count
        (State.RUNNING, 5, 2, "attempt 5 of 7"),
    ],
)
def test_an_attempt_is_numbered_as_in_the_history_and_of_as_many_as_there_may_be(
    state: State, attempt: int, failures: int, words: str
) -> None:
    run = Run("r", "t", "local", NOW, state, attempt=attempt, failures=failures)
    assert attempt_in_words(run, RetryPolicy(max_attempts=5)) == words


def test_the_delay_is_capped() -> None:
    policy = RetryPolicy(max_attempts=1000, max_backoff=timedelta(seconds=5))
    assert [delay(n, policy).total_seconds() for n in (1, 2, 3, 999)] == [2, 4, 5, 5]


@pytest.mark.parametrize("attempts", [1, 5])
def test_after_the_last_attempt_there_is_none(attempts: int) -> None:
    policy = RetryPolicy(max_attempts=attempts)
    assert next_attempt(Retry("x"), failures=attempts, policy=policy, now=NOW, jitter=0.5) is None
    if attempts > 1:
        assert next_attempt(Retry("x"), failures=attempts - 1, policy=policy, now=NOW, jitter=0.5) is not None


@given(POLICIES, st.integers(1, 99), st.floats(0, 1))
def test_the_delay_lies_between_now_and_the_ceiling(policy: RetryPolicy, failures: int, jitter: float) -> None:
    moment = next_attempt(Retry("x"), failures=failures, policy=policy, now=NOW, jitter=jitter)
    if failures >= policy.max_attempts:
        assert moment is None
    else:
        assert moment is not None
        assert NOW <= moment <= NOW + ceiling(failures, policy) <= NOW + policy.max_backoff


@given(POLICIES, st.timedeltas(timedelta(0), timedelta(days=2)), st.floats(0, 1))
def test_a_requested_delay_is_a_minimum(policy: RetryPolicy, after: timedelta, jitter: float) -> None:
    moment = next_attempt(Retry("x", after), failures=1, policy=policy, now=NOW, jitter=jitter)
    if policy.max_attempts > 1:
        assert moment is not None
        assert moment >= NOW + after
    assert delay(1, RetryPolicy(), jitter=0.0, after=after) == after


@pytest.mark.parametrize("after", [None, timedelta(seconds=5)])
def test_runs_that_failed_together_do_not_come_back_together(after: timedelta | None) -> None:
    draw = random.Random(7)
    policy = RetryPolicy(max_attempts=10)
    delays = [delay(5, policy, jitter=draw.random(), after=after).total_seconds() for _ in range(1600)]
    buckets = [sum(1 for each in delays if int(each) == second) for second in range(37)]
    filled = [count for count in buckets if count]
    assert len(filled) == 32
    assert max(filled) < 3 * sum(filled) / len(filled)


CALL_COUNT = 1_000
FIXED_INTERVAL_S = 1.0
"""The mean pause after the first failure, by the default policy."""


def peak(arrivals: Iterable[float], window_s: float) -> int:
    """Return the most arrivals in any window of this length."""
    found = sorted(arrivals)
    return max(bisect_left(found, at + window_s) - place for place, at in enumerate(found))


def retried_at(pause: Callable[[int], float], attempts: int) -> list[float]:
    """Return when calls that all failed at 0 s are retried, if every retry fails at once as well."""
    arrivals, at = list[float](), [0.0] * CALL_COUNT
    for failures in range(1, attempts):
        at = [each + pause(failures) for each in at]
        arrivals += at
    return arrivals


@pytest.mark.parametrize(("window_s", "lower"), [(0.1, 0.9), (0.5, 0.6)])
def test_the_peak_of_retries_is_at_least_60_percent_lower_than_at_a_fixed_interval(
    window_s: float, lower: float
) -> None:
    draw, policy = random.Random(7), RetryPolicy(max_attempts=6)
    assert delay(1, policy, jitter=0.5).total_seconds() == FIXED_INTERVAL_S
    spread = retried_at(lambda n: delay(n, policy, jitter=draw.random()).total_seconds(), policy.max_attempts)
    fixed = retried_at(lambda _n: FIXED_INTERVAL_S, policy.max_attempts)
    assert peak(fixed, window_s) == CALL_COUNT
    assert peak(spread, window_s) <= (1 - lower) * peak(fixed, window_s)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("5", 5),
        (" 120 ", 120),
        ("0", 0),
        ("Sat, 21 Nov 2026 12:00:30 GMT", 30),
        ("Sat, 21 Nov 2026 11:00:00 GMT", 0),
        ("Saturday, 21-Nov-26 12:01:00 GMT", 60),
        ("999999999999999999999999", MAX_RETRY_AFTER.total_seconds()),
        ("Fri, 31 Dec 9999 23:59:59 GMT", MAX_RETRY_AFTER.total_seconds()),
    ],
)
def test_retry_after_is_read_in_both_forms(header: str, seconds: float) -> None:
    found = retry_after(header, now=NOW)
    assert found is not None
    assert found.total_seconds() == seconds


@pytest.mark.parametrize("header", [None, "", "soon", "-5", "1.5", "Sat, 99 Nov 2026 12:00:30 GMT", "٣"])
def test_a_retry_after_that_is_not_understood_is_none(header: str | None) -> None:
    assert retry_after(header, now=NOW) is None


@given(st.text(max_size=60))
def test_no_header_breaks_the_reading(header: str) -> None:
    found = retry_after(header, now=NOW)
    assert found is None or timedelta(0) <= found <= MAX_RETRY_AFTER
