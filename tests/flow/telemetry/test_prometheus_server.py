"""A real Prometheus scrapes an endpoint that reports trouble, and then that all is well: what fires, and ends.

That each state arises in an installation, and is told by its processes, is for test_prometheus_installation.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.foresight.lateness import TierLateness
from duetime.scheduler.queue import PoolUse, Stats
from duetime.scheduler.rules.alerts.alert_rules import ALERT_RULES
from duetime.scheduler.run_records import Claim
from duetime.scheduler.runtime.notifier import RunNotifier
from duetime.scheduler.store import Store
from duetime.scheduler.task import State, Tier
from duetime.server.app import App, build
from duetime.server.telemetry import kept_value
from duetime.server.telemetry.installation import InstallationReader, InstallationState
from duetime.server.workers.metrics_endpoint import answering_metrics

from tests.builders import settlement
from tests.flow.telemetry.scraper import scraping
from tests.flow.test_app import settings
from tests.flow.waiting import eventually

pytestmark = pytest.mark.faults

WELL = InstallationState(
    Stats((0, 0, 0, 0, 0), 0, 0, 0, {"api": PoolUse(100, 0, 10, 100, 1, 0, "admitting")}),
    [TierLateness(Tier.CRITICAL, 1, timedelta(0), timedelta(seconds=1))],
    workers={"running": 2, "draining": 0, "drained": 0, "silent": 0},
    database_s=0.001,
    queue_s=0.001,
    disk_used=0.5,
)
ILL = replace(
    WELL,
    stats=Stats((1, 0, 0, 0, 0), 0, 7, 0, {"api": PoolUse(100, 0, 150, 0, 1, 7, "tripped")}),
    lateness=[TierLateness(Tier.CRITICAL, 1, timedelta(seconds=40), timedelta(seconds=1))],
    workers={"running": 0, "draining": 0, "drained": 1, "silent": 1},
    disk_used=0.99,
)


def work_goes_wrong(app: App) -> None:
    """Let 30 attempts start, of which most are tried again, 10 become dead letters and 30 miss their deadline."""
    record = app.scheduler.schedule("Call John", when="in 1 hour").record
    past = app.store.now() - timedelta(minutes=1)
    run = replace(record.run, attempt=1, started_at=past, scheduled_for=past, deadline=past)
    claims = [Claim(run, record.task, "w") for _ in range(30)]
    notifier = RunNotifier(subscribers=app.observers.runs)
    notifier.started(claims)
    notifier.settled([settlement(claim, State.RETRYING) for claim in claims])
    notifier.settled([settlement(claim, State.FAILED, dead_letter=n < 10) for n, claim in enumerate(claims)])


def test_each_alert_fires_in_a_real_prometheus_and_those_of_the_moment_end(
    prometheus: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now: dict[str, Any] = {"state": WELL, "skew": 0.1}
    answer: Callable[[InstallationReader], InstallationState] = lambda _: now["state"]  # noqa: E731 - replaces a method
    monkeypatch.setattr(InstallationReader, "read", answer)
    monkeypatch.setattr(Store, "skew", lambda _: now["skew"])
    monkeypatch.setattr(kept_value, "KEPT_S", 0.0)
    with (
        build(settings(tmp_path)) as app,
        answering_metrics(app, 0) as address,
        scraping(prometheus, tmp_path, address) as server,
    ):
        eventually(lambda: server.has("duetime_retries_total"), "the first scrape")
        assert server.firing() == set()
        now.update(state=ILL, skew=-42.0)
        work_goes_wrong(app)
        every = {rule.name for rule in ALERT_RULES}
        eventually(lambda: server.firing() == every, "every alert")
        now.update(state=WELL, skew=0.1)
        of_events = {"DuetimeDeadlinesMissed", "DuetimeDeadLetters", "DuetimeRetryStorm"}
        eventually(lambda: server.firing() == of_events, "the end of those that are over")
