"""Feedback of a pool from outcomes: a circuit breaker, and proportional throttling. Twin: lua/admission/feedback.lua.

The breaker is closed, open until a time, or half-open after that time, when one probe decides (Nygard, Release It!,
2007). Throttling is a proportional decrease and an additive recovery (after Chiu and Jain, 1989).
"""

from __future__ import annotations

from dataclasses import dataclass

from duetime.scheduler.rules.limits.admission import Limits, PoolState

MIN_THROTTLE_RATIO = 0.05
MAX_CUT_RATIO = 0.5
CUT_INTERVAL_MS = 1000.0
"""Milliseconds between two cuts: calls sent before the last cut prove nothing about it."""

MAX_COOLDOWN_DOUBLINGS = 5


@dataclass(frozen=True, slots=True)
class Report:
    """A run's report on a pool: it answered in `latency` ms, failed, or was too busy for `retry_after` ms."""

    pool: str
    ok: bool = True
    throttled: bool = False
    retry_after: float = 0.0
    latency: float = 0.0


def learn(limits: Limits, state: PoolState, report: Report, now: float, jitter: float, *, probed: bool) -> None:
    """Apply a report; `jitter`, 0 to 1, spreads the ends of pauses. Changes `state`, which is as of `now`.

    `probed`: the reporting run was the probe of this pool; until a probe has been answered, no other report counts.
    """
    if report.throttled:
        _throttled(state, report, now)
    elif now < state.open_until or (state.open_until > 0 and not probed):
        return  # the call began before the breaker opened
    elif report.ok:
        _answered(limits, state, report, now)
    else:
        _failed(limits, state, now, jitter)


def close(state: PoolState) -> None:
    """Close the breaker: after a probe was answered, and when the pool has none any more. Changes `state`."""
    state.open_until, state.trips, state.probe = 0.0, 0, ""


def _throttled(state: PoolState, report: Report, now: float) -> None:
    """Cut and pause the pool; the breaker does not count it, because a busy provider is not a broken one."""
    state.stopped_until = max(state.stopped_until, now + report.retry_after)
    state.bad += 1
    _cut(state, state.bad / (state.good + state.bad), now)


def _answered(limits: Limits, state: PoolState, report: Report, now: float) -> None:
    if state.open_until > 0:
        close(state)
    state.good += 1
    state.failing = 0
    _count(limits, state, 0.0)
    if 0 < limits.latency < report.latency:
        _cut(state, 1 - limits.latency / report.latency, now)


def _failed(limits: Limits, state: PoolState, now: float, jitter: float) -> None:
    state.failing += 1
    _count(limits, state, 1.0)
    if limits.failures == 0:
        return
    often = state.seen >= limits.samples and state.errors >= limits.error_rate
    if state.open_until > 0 or state.failing >= limits.failures or often:
        state.open_until = now + limits.cooldown * 2 ** min(state.trips, MAX_COOLDOWN_DOUBLINGS) * (1 + jitter / 2)
        state.trips += 1
        state.probe, state.failing, state.errors, state.seen = "", 0, 0.0, 0


def _count(limits: Limits, state: PoolState, failed: float) -> None:
    """Update the failed part: the mean of the first samples, then an exponential average."""
    state.seen += 1
    state.errors += (failed - state.errors) / min(state.seen, limits.samples)


def _cut(state: PoolState, shortage: float, now: float) -> None:
    if now - state.cut_at < CUT_INTERVAL_MS:
        return
    state.factor = max(MIN_THROTTLE_RATIO, state.factor * (1 - min(MAX_CUT_RATIO, shortage)))
    state.good, state.bad, state.cut_at = 0, 0, now
