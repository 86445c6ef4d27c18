"""Alert rules: what begins an alert, what ends it, and when a channel is told."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from duetime.scheduler.rules.alerts.alert import (
    RESOLVED_FOR,
    Alert,
    AlertRule,
    Notice,
    Observation,
    Phase,
    RecentOutcomes,
    advance,
    is_due,
    retry_delay,
)
from duetime.scheduler.rules.alerts.alert_rules import ALERT_RULES
from duetime.scheduler.task import Tier

from tests.builders import NOON

RULE = AlertRule("R", "{key}: {value:.0f}", "{key} was", lambda seen: seen.overrun, 10, 1, timedelta(minutes=1))
MINUTE = timedelta(minutes=1)
WELL = Observation(
    starvation={Tier.CRITICAL: 0.5, Tier.HIGH: 1.0},
    outcomes=RecentOutcomes(started=100, retried=20, deadlines=100, missed=4),
    overrun={"tokens": 0.9},
    tripped=[],
    silent_workers=0,
    drained_workers=0,
    disk_used=0.9,
    skew={"db-1": 0.2},
)
ILL = {
    "DuetimeCriticalWorkStarves": (replace(WELL, starvation={Tier.CRITICAL: 40.0}), "critical runs wait 40 times"),
    "DuetimeDeadlinesMissed": (replace(WELL, outcomes=RecentOutcomes(deadlines=50, missed=10)), "20% of the deadlines"),
    "DuetimeDeadLetters": (replace(WELL, outcomes=RecentOutcomes(dead_letters=6)), "6 runs became dead letters"),
    "DuetimeBudgetOverrun": (replace(WELL, overrun={"tokens": 1.5}), "the pool tokens has spent 1.50 times"),
    "DuetimeRetryStorm": (replace(WELL, outcomes=RecentOutcomes(started=50, retried=40)), "80% of the attempts"),
    "DuetimeBreakerOpen": (replace(WELL, tripped=["api"]), "the breaker of the pool api is open"),
    "DuetimeWorkersLost": (replace(WELL, silent_workers=2), "workers silent for more than 15 seconds: 2"),
    "DuetimeWorkersDrained": (
        replace(WELL, drained_workers=3),
        "no run starts, because all workers are drained: 3",
    ),
    "DuetimeDiskNearlyFull": (replace(WELL, disk_used=0.97), "the disk of the database is 97% full"),
    "DuetimeClockSkew": (replace(WELL, skew={"db-1": -42.0}), "the clock of db-1 is 42 s off"),
}


@pytest.mark.parametrize("rule", ALERT_RULES, ids=lambda rule: rule.name)
def test_each_rule_fires_on_its_own_state_once_it_lasts_and_ends_when_all_is_well(rule: AlertRule) -> None:
    ill, said = ILL[rule.name]
    first = advance(rule, {}, ill, NOON)
    assert [alert.phase for alert in first.values()] == [Phase.PENDING if rule.lasts else Phase.FIRING]
    [fired] = advance(rule, first, ill, NOON + rule.lasts).values()
    assert fired.phase is Phase.FIRING
    assert said in rule.sentence(fired)
    [over] = advance(rule, {fired.key: fired}, WELL, NOON + timedelta(hours=1)).values()
    assert (over.phase, over.since) == (Phase.RESOLVED, NOON + timedelta(hours=1))


def test_no_rule_fires_while_all_is_well_or_nothing_is_known() -> None:
    assert [advance(rule, {}, seen, NOON) for rule in ALERT_RULES for seen in (WELL, Observation())] == [{}] * 2 * len(
        ALERT_RULES
    )


def at(value: float | None) -> Observation:
    return Observation(overrun=None if value is None else {"k": value})


def test_a_state_that_does_not_last_raises_no_alert() -> None:
    pending = advance(RULE, {}, at(20), NOON)
    assert advance(RULE, pending, at(9), NOON + MINUTE) == {}


def test_an_alert_goes_on_until_its_value_is_clearly_lower() -> None:
    firing = {"k": Alert("R", "k", Phase.FIRING, NOON, 20)}
    assert advance(RULE, firing, at(2), NOON + MINUTE)["k"].phase is Phase.FIRING
    assert advance(RULE, firing, at(1), NOON + MINUTE)["k"].phase is Phase.RESOLVED


def test_a_value_that_cannot_be_read_changes_nothing() -> None:
    known = {key: Alert("R", key, phase, NOON, 20) for key, phase in (("a", Phase.PENDING), ("b", Phase.FIRING))}
    assert advance(RULE, known, at(None), NOON + timedelta(days=30)) == known


def test_a_resolved_alert_is_listed_for_a_week_and_may_come_again() -> None:
    over = {"k": Alert("R", "k", Phase.RESOLVED, NOON, 0)}
    assert advance(RULE, over, at(5), NOON + MINUTE) == over
    assert advance(RULE, over, at(5), NOON + RESOLVED_FOR) == {}
    assert advance(RULE, over, at(20), NOON + MINUTE)["k"] == Alert("R", "k", Phase.PENDING, NOON + MINUTE, 20)


HOURS = timedelta(hours=4)
FIRING, OVER = Alert("R", "k", Phase.FIRING, NOON, 20), Alert("R", "k", Phase.RESOLVED, NOON, 0)


@pytest.mark.parametrize(
    ("alert", "notice", "due"),
    [
        (FIRING, Notice(), True),
        (replace(FIRING, phase=Phase.PENDING), Notice(), False),
        (FIRING, Notice(Phase.FIRING, NOON - MINUTE), False),
        (FIRING, Notice(Phase.FIRING, NOON - HOURS), True),
        (FIRING, Notice(Phase.RESOLVED, NOON - MINUTE), True),
        (FIRING, Notice(None, None, 1, NOON + MINUTE), False),
        (FIRING, Notice(None, None, 1, NOON), True),
        (OVER, Notice(Phase.FIRING, NOON - MINUTE), True),
        (OVER, Notice(Phase.RESOLVED, NOON - HOURS), False),
        (OVER, Notice(), False),
    ],
)
def test_a_channel_is_told_when_an_alert_fires_at_times_again_and_when_it_is_over(
    alert: Alert, notice: Notice, *, due: bool
) -> None:
    assert is_due(alert, notice, NOON, HOURS) is due


def test_a_notice_that_fails_is_tried_later_and_later_but_each_hour() -> None:
    assert [retry_delay(tries).total_seconds() for tries in (1, 2, 3, 8, 999)] == [30, 60, 120, 3600, 3600]
