"""Retried calls with full jitter against fixed intervals: how many meet a provider at once.

500 calls fail together, as in an outage, which lasts 20 s. `rules/retry.py` says when each is tried again; the others
wait a fixed interval (the mean of its first five pauses), or double it without jitter. Nothing runs here. The times of
the attempts are computed with a seeded random. They are counted in each window of 100 ms and of 1 s, wherever it
begins.

    python benchmarks/bench_retries.py
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from duetime.scheduler.outcomes import Retry
from duetime.scheduler.rules.retry import ceiling, next_attempt
from duetime.scheduler.task import RetryPolicy

CALL_COUNT = 500
OUTAGE_S = 20.0
RETRIES_SEED = 7
WINDOWS_S = (0.1, 1.0)
AIM_RATIO = 0.6
POLICY = RetryPolicy(max_attempts=100)
START = datetime(2026, 11, 23, 9, tzinfo=UTC)

Pause = Callable[[int], timedelta]


def attempts(pause: Pause) -> list[float]:
    """Return the seconds at which one call is tried again: until the outage is over, and once more."""
    at, failures, found = 0.0, 1, []
    while at <= OUTAGE_S:
        at += pause(failures).total_seconds()
        failures += 1
        found.append(at)
    return found


def jittered(draw: random.Random) -> Pause:
    def pause(failures: int) -> timedelta:
        again = next_attempt(Retry("503"), failures=failures, policy=POLICY, now=START, jitter=draw.random())
        assert again is not None
        return again - START

    return pause


def doubled(failures: int) -> timedelta:
    return ceiling(failures, POLICY)


def fixed(_failures: int) -> timedelta:
    return (
        sum((ceiling(n, POLICY) for n in range(1, 6)), timedelta(0)) / 10
    )  # half a ceiling is the mean of full jitter


def peak(times: Sequence[float], window: float) -> int:
    """Return the most attempts within any window of this length."""
    ordered, first, most = sorted(times), 0, 0
    for last, at in enumerate(ordered):
        while at - ordered[first] >= window:
            first += 1
        most = max(most, last - first + 1)
    return most


def peaks(pause_of: Callable[[random.Random], Pause]) -> dict[float, int]:
    draw = random.Random(RETRIES_SEED)
    times = [at for _ in range(CALL_COUNT) for at in attempts(pause_of(draw))]
    return {window: peak(times, window) for window in WINDOWS_S}


def main() -> int:
    ours = peaks(jittered)
    print(f"{CALL_COUNT} calls fail together; most attempts within 100 ms / 1 s, and how much lower full jitter is")
    print(f"full jitter:              {ours[0.1]:4} / {ours[1.0]:4}")
    lower = 1.0
    for name, found in (
        ("a fixed interval", peaks(lambda _: fixed)),
        ("doubled, without jitter", peaks(lambda _: doubled)),
    ):
        less = [1 - ours[window] / found[window] for window in WINDOWS_S]
        print(f"{name + ':':25} {found[0.1]:4} / {found[1.0]:4}   {less[0]:.0%} / {less[1]:.0%}")
        lower = min(lower, less[0])
    print(f"aim: at least {AIM_RATIO:.0%} lower within 100 ms: {'met' if lower >= AIM_RATIO else 'MISSED'}")
    return 0 if lower >= AIM_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
