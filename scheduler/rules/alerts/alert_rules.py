"""The alert rules. Twin: examples/prometheus/duetime.rules.yml, which has the same alerts over the metrics.

docs/runbook.md says of each what it means and what to do; a test compares the three.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from duetime.scheduler.rules.alerts.alert import AlertRule, Observation
from duetime.scheduler.task import Tier

OUTCOME_WINDOW: Final = timedelta(minutes=15)
"""Outcomes are counted over this time."""

MIN_DEADLINES: Final = 20
MIN_RETRIES: Final = 20
"""Fewer than so many say nothing about a rate."""

_SOON, _LATER = timedelta(minutes=1), timedelta(minutes=2)
_MAINTENANCE = timedelta(minutes=5)
"""Workers are drained on purpose; nobody is notified until that lasts."""


def _starvation(seen: Observation) -> Mapping[str, float] | None:
    if seen.starvation is None:
        return None
    return {tier: seen.starvation.get(tier, 0.0) for tier in (Tier.CRITICAL, Tier.HIGH)}


def _miss_rate(seen: Observation) -> Mapping[str, float] | None:
    found = seen.outcomes
    if found is None:
        return None
    return {"": found.missed / found.deadlines} if found.deadlines >= MIN_DEADLINES else {}


def _dead_letters(seen: Observation) -> Mapping[str, float] | None:
    return None if seen.outcomes is None else {"": float(seen.outcomes.dead_letters)}


def _retry_ratio(seen: Observation) -> Mapping[str, float] | None:
    found = seen.outcomes
    if found is None:
        return None
    return {"": found.retried / max(1, found.started)} if found.retried >= MIN_RETRIES else {}


def _tripped(seen: Observation) -> Mapping[str, float] | None:
    return None if seen.tripped is None else dict.fromkeys(seen.tripped, 1.0)


def _silent_workers(seen: Observation) -> Mapping[str, float] | None:
    return None if seen.silent_workers is None else {"": float(seen.silent_workers)}


def _drained_workers(seen: Observation) -> Mapping[str, float] | None:
    return None if seen.drained_workers is None else {"": float(seen.drained_workers)}


def _disk_used(seen: Observation) -> Mapping[str, float] | None:
    return None if seen.disk_used is None else {"": seen.disk_used}


ALERT_RULES: Final = (
    AlertRule(
        "DuetimeCriticalWorkStarves",
        "{key} runs wait {value:.0f} times as long as they may",
        "{key} runs waited more than 10 times as long as they may",
        _starvation,
        fires_above=10,
        clears_at=1,
        lasts=_SOON,
        page=True,
    ),
    AlertRule(
        "DuetimeDeadlinesMissed",
        "{value:.0%} of the deadlines of the last 15 minutes were missed",
        "more than 10% of the deadlines of 15 minutes were missed",
        _miss_rate,
        fires_above=0.1,
        clears_at=0.05,
        lasts=_LATER,
        page=True,
    ),
    AlertRule(
        "DuetimeDeadLetters",
        "{value:.0f} runs became dead letters in the last 15 minutes",
        "more than 5 runs became dead letters within 15 minutes",
        _dead_letters,
        fires_above=5,
        clears_at=0,
        lasts=timedelta(0),
    ),
    AlertRule(
        "DuetimeBudgetOverrun",
        "the pool {key} has spent {value:.2f} times its budget",
        "the pool {key} had spent more than its budget",
        lambda seen: seen.overrun,
        fires_above=1,
        clears_at=1,
        lasts=timedelta(0),
    ),
    AlertRule(
        "DuetimeRetryStorm",
        "{value:.0%} of the attempts of the last 15 minutes failed and are tried again",
        "more than 50% of the attempts of 15 minutes failed and were tried again",
        _retry_ratio,
        fires_above=0.5,
        clears_at=0.25,
        lasts=_LATER,
        page=True,
    ),
    AlertRule(
        "DuetimeBreakerOpen",
        "the breaker of the pool {key} is open: its calls fail",
        "the breaker of the pool {key} was open: its calls failed",
        _tripped,
        fires_above=0,
        clears_at=0,
        lasts=_LATER,
    ),
    AlertRule(
        "DuetimeWorkersLost",
        "workers silent for more than 15 seconds: {value:.0f}",
        "workers were silent for more than 15 seconds",
        _silent_workers,
        fires_above=0,
        clears_at=0,
        lasts=_SOON,
        page=True,
    ),
    AlertRule(
        "DuetimeWorkersDrained",
        "no run starts, because all workers are drained: {value:.0f}",
        "no run started, because all workers were drained",
        _drained_workers,
        fires_above=0,
        clears_at=0,
        lasts=_MAINTENANCE,
        page=True,
    ),
    AlertRule(
        "DuetimeDiskNearlyFull",
        "the disk of the database is {value:.0%} full; a full one refuses every task",
        "the disk of the database was more than 95% full",
        _disk_used,
        fires_above=0.95,
        clears_at=0.93,
        lasts=_LATER,
        page=True,
    ),
    AlertRule(
        "DuetimeClockSkew",
        "the clock of {key} is {value:.0f} s off the database's",
        "the clock of {key} was more than 5 s off the database's",
        lambda seen: {host: abs(seconds) for host, seconds in seen.skew.items()},
        fires_above=5,
        clears_at=2,
        lasts=_LATER,
        per_host=True,
    ),
)
"""All rules, the most urgent first; `duetime alerts` lists them in this order."""
