"""The monitor of alerts: each rule fires once, channels are told once, and processes take turns."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

import pytest
from duetime.scheduler.delivery.channel import ChannelError
from duetime.scheduler.foresight.lateness import TierLateness
from duetime.scheduler.queue import PoolUse, Stats
from duetime.scheduler.rules.alerts.alert import Observation, Phase, RecentOutcomes
from duetime.scheduler.rules.alerts.alert_rules import ALERT_RULES
from duetime.scheduler.store import Store
from duetime.scheduler.task import InboxMessage, State, Tier
from duetime.server.telemetry.alerts.monitor import AlertMonitor
from duetime.server.telemetry.alerts.watch import observation_of
from duetime.server.telemetry.installation import InstallationState

from tests.builders import Clock
from tests.rules.tasks.test_alerts import ILL, WELL

REPEAT = timedelta(hours=4)


class Pager:
    """A channel that remembers what it was told, and may refuse."""

    def __init__(self, name: str = "webhook:pager") -> None:
        self.name = name
        self.told: list[InboxMessage] = []
        self.keys: list[str] = []
        self.refuses = False

    def send(self, message: InboxMessage, *, key: str) -> None:
        self.keys.append(key)
        if self.refuses:
            raise ChannelError("the receiver answered 503")
        self.told.append(message)

    def close(self) -> None:
        """Nothing to close."""


class Installation:
    """A monitor on a host, and what it sees."""

    def __init__(self, store: Store, clock: Clock, host: str = "db-1") -> None:
        self.store, self.clock, self.seen = store, clock, WELL
        self.pager = Pager()
        self.monitor = self.another(host)

    def another(self, host: str) -> AlertMonitor:
        def observe() -> Observation:
            own = {name: seconds for name, seconds in self.seen.skew.items() if name == host}
            return replace(self.seen, skew=own)

        return AlertMonitor(lambda: self.store, observe, lambda: [self.pager], repeat=REPEAT, host=host)

    def passes(self, minutes: int) -> None:
        """Let the monitor look each 20 seconds for some minutes."""
        for _ in range(3 * minutes):
            self.clock.forward(seconds=20)
            self.monitor.step()

    @property
    def titles(self) -> list[str]:
        return [message.title for message in self.pager.told]


@pytest.fixture
def installation(store: Store, clock: Clock) -> Installation:
    return Installation(store, clock)


@pytest.mark.parametrize("name", [rule.name for rule in ALERT_RULES])
def test_each_alert_is_told_once_when_it_fires_and_once_when_it_is_over(installation: Installation, name: str) -> None:
    installation.passes(2)
    installation.seen = ILL[name][0]
    installation.passes(10)
    installation.seen = WELL
    installation.passes(10)
    assert [title.partition(" (")[0] for title in installation.titles] == [f"Alert: {name}", f"Resolved: {name}"]
    fired, over = installation.pager.told
    assert (fired.state, over.state) == (State.FAILED, State.SUCCEEDED)
    assert ILL[name][1] in fired.text
    assert f"docs/runbook.md#{name.lower()}" in fired.text
    [rule] = [rule for rule in ALERT_RULES if rule.name == name]
    said = over.text.partition("; it is over (since ")[0]
    assert re.fullmatch(re.escape(rule.past).replace(r"\{key\}", ".+"), said)
    assert re.search(r"\b(was|were|had|waited|became|started)\b", said)


def test_an_alert_that_goes_on_is_told_again_after_hours(installation: Installation) -> None:
    installation.seen = ILL["DuetimeBreakerOpen"][0]
    installation.passes(9 * 60)
    assert installation.titles == ["Alert: DuetimeBreakerOpen (api)"] * 3


def test_a_notice_that_is_not_taken_is_tried_again_until_it_is(installation: Installation) -> None:
    installation.pager.refuses = True
    installation.seen = ILL["DuetimeDeadLetters"][0]
    installation.passes(5)
    installation.pager.refuses = False
    installation.passes(5)
    assert installation.titles == ["Alert: DuetimeDeadLetters"]
    assert len(installation.pager.keys) > 2
    assert len(set(installation.pager.keys)) == 1, "so that a receiver recognises a retry"


def test_an_alert_that_was_never_told_is_not_told_as_over(installation: Installation) -> None:
    installation.pager.refuses = True
    installation.seen = ILL["DuetimeDeadLetters"][0]
    installation.passes(1)
    installation.pager.refuses, installation.seen = False, WELL
    installation.passes(30)
    assert installation.titles == []


def test_the_alert_of_a_host_that_is_gone_is_over(installation: Installation) -> None:
    replaced, other = installation.monitor, installation.another("web-1")
    installation.seen = Observation(skew={"db-1": 9.0, "web-1": 0.0})
    for _ in range(30):
        installation.clock.forward(seconds=20)
        replaced.step()
        other.step()
    installation.monitor = other
    assert installation.titles == ["Alert: DuetimeClockSkew (db-1)"], "each host looks after its own"
    installation.passes(9)
    assert len(installation.titles) == 1, "a restart takes less"
    installation.passes(3)
    assert installation.titles[1:] == ["Resolved: DuetimeClockSkew (db-1)"]
    installation.passes(30)
    assert len(installation.titles) == 2


def test_one_of_two_processes_notifies_and_each_watches_the_clock_of_its_own_host(
    installation: Installation, store: Store, clock: Clock
) -> None:
    other = installation.another("web-1")
    installation.seen = Observation(tripped=["api"], skew={"db-1": 9.0, "web-1": 0.0})
    for _ in range(15):
        clock.forward(seconds=20)
        installation.monitor.step()
        other.step()
    assert installation.titles == ["Alert: DuetimeBreakerOpen (api)", "Alert: DuetimeClockSkew (db-1)"]
    assert {alert.key for alert in store.alerts.all()} == {"api", "db-1"}


def test_the_state_of_an_installation_becomes_what_the_rules_look_at() -> None:
    pools = {
        "tokens": PoolUse(100, 0, 150, 0, 1, 0, "admitting"),
        "api": PoolUse(5, 0, 0, 0, 1, 3, "tripped"),
        "night": PoolUse(0, 0, 9, 0, 1, 0, "closed"),
    }
    state = InstallationState(
        Stats((0, 0, 0, 0, 0), 0, 0, 0, pools),
        [TierLateness(Tier.CRITICAL, 1, timedelta(seconds=30), timedelta(seconds=1))],
        workers={"running": 1, "draining": 0, "drained": 0, "silent": 2},
        disk_used=0.97,
    )
    found = observation_of(state, RecentOutcomes(), -3.0)
    assert found.starvation == {Tier.CRITICAL: 30}
    assert found.overrun == {"tokens": 1.5, "api": 0}
    assert found.disk_used == 0.97
    assert (list(found.tripped or ()), found.silent_workers, [*found.skew.values()]) == (["api"], 2, [-3.0])
    away = observation_of(InstallationState(), RecentOutcomes(), 0.0)
    assert (away.starvation, away.overrun, away.tripped, away.silent_workers) == (None, None, None, None)


@pytest.mark.parametrize(
    ("states", "drained"),
    [
        ({}, None),
        ({"running": 0, "draining": 1, "drained": 2, "silent": 1}, 3),
        ({"running": 1, "draining": 1, "drained": 2, "silent": 0}, 0),
        ({"running": 0, "draining": 0, "drained": 0, "silent": 2}, 0),
    ],
)
def test_workers_count_as_drained_when_none_takes_runs(states: dict[str, int], drained: int | None) -> None:
    found = observation_of(InstallationState(workers=states), RecentOutcomes(), 0.0)
    assert found.drained_workers == drained


def test_alerts_in_the_store_have_their_phase(installation: Installation, store: Store) -> None:
    installation.seen = ILL["DuetimeWorkersLost"][0]
    installation.monitor.step()
    assert [alert.phase for alert in store.alerts.all()] == [Phase.PENDING]


def test_a_rule_that_fails_keeps_no_other_from_being_told(installation: Installation) -> None:
    def fail(_seen: Observation) -> None:
        raise ValueError("a defect")

    first, *others = ALERT_RULES
    installation.monitor._rules = {rule.name: rule for rule in (replace(first, measure=fail), *others)}
    installation.seen = ILL["DuetimeBreakerOpen"][0]
    installation.passes(10)
    assert installation.titles == ["Alert: DuetimeBreakerOpen (api)"]


def test_a_damaged_alert_keeps_no_other_from_being_told(installation: Installation) -> None:
    installation.seen = ILL["DuetimeBreakerOpen"][0]
    installation.passes(10)
    damage = "UPDATE alerts SET phase = 'pondered'"
    installation.store._database.write(lambda connection: connection.exec_driver_sql(damage))
    installation.seen = ILL["DuetimeWorkersLost"][0]
    installation.passes(10)
    assert any("DuetimeWorkersLost" in title for title in installation.titles)
