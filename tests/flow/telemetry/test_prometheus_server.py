"""A real Prometheus scrapes a real endpoint: each alert fires once, and none is left when all is well again."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml  # type: ignore[import-untyped]  # it has no stubs of its own
from duetime.scheduler.foresight.lateness import TierLateness
from duetime.scheduler.queue import PoolUse, Stats
from duetime.scheduler.rules.alerts.alert_rules import RULES
from duetime.scheduler.run_records import Claim
from duetime.scheduler.runtime.notifier import RunNotifier
from duetime.scheduler.store import Store
from duetime.scheduler.task import State, Tier
from duetime.server.app import App, build
from duetime.server.telemetry import kept_value
from duetime.server.telemetry.installation import InstallationReader, InstallationState
from duetime.server.workers.metrics_endpoint import answering_metrics

from tests.builders import settlement
from tests.flow.telemetry.test_prometheus_files import alerts
from tests.flow.test_app import settings
from tests.flow.waiting import eventually
from tests.services import reserved_port

pytestmark = pytest.mark.faults

WELL = InstallationState(
    Stats((0, 0, 0, 0, 0), 0, 0, 0, {"api": PoolUse(100, 0, 10, 100, 1, 0, "admitting")}),
    [TierLateness(Tier.CRITICAL, 1, timedelta(0), timedelta(seconds=1))],
    workers={"running": 2, "draining": 0, "drained": 0, "silent": 0},
    database_s=0.001,
    queue_s=0.001,
)
ILL = replace(
    WELL,
    stats=Stats((1, 0, 0, 0, 0), 0, 7, 0, {"api": PoolUse(100, 0, 150, 0, 1, 7, "tripped")}),
    lateness=[TierLateness(Tier.CRITICAL, 1, timedelta(seconds=40), timedelta(seconds=1))],
    workers={"running": 1, "draining": 0, "drained": 0, "silent": 1},
)


class Server:
    """A Prometheus with the rules of the examples, whose `for` is a second here."""

    def __init__(self, client: httpx2.Client) -> None:
        self._client = client

    def firing(self) -> set[str]:
        found = self._asked("alerts", {})["alerts"]
        return {alert["labels"]["alertname"] for alert in found if alert["state"] == "firing"}

    def has(self, query: str) -> bool:
        return bool(self._asked("query", {"query": query})["result"])

    def _asked(self, what: str, params: dict[str, str]) -> dict[str, Any]:
        try:
            answer = self._client.get(f"/api/v1/{what}", params=params)
            found: dict[str, Any] = answer.json()["data"]
        except (httpx2.TransportError, ValueError):
            return {"alerts": [], "result": []}  # it is starting
        return found


@contextmanager
def scraping(program: str, folder: Path, address: str) -> Iterator[Server]:
    target = address.removeprefix("http://").removesuffix("/metrics")
    rules = [
        {key: "1s" if key == "for" else value for key, value in rule.items() if key != "keep_firing_for"}
        for rule in alerts().values()
    ]
    config = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yml"],
        "scrape_configs": [{"job_name": "duetime", "static_configs": [{"targets": [target]}]}],
    }
    (folder / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "duetime", "rules": rules}]}), "utf-8")
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config), "utf-8")
    with reserved_port() as port:
        options = [f"--web.listen-address=127.0.0.1:{port}", f"--storage.tsdb.path={folder / 'data'}"]
        command = [program, f"--config.file={folder / 'prometheus.yml'}", *options]
        with (
            httpx2.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client,
            (folder / "log").open("wb") as log,
            subprocess.Popen(command, stdout=log, stderr=log) as process,
        ):
            try:
                yield Server(client)
            finally:
                process.terminate()


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
        every = {rule.name for rule in RULES}
        eventually(lambda: server.firing() == every, "every alert")
        now.update(state=WELL, skew=0.1)
        of_events = {"DuetimeDeadlinesMissed", "DuetimeDeadLetters", "DuetimeRetryStorm"}
        eventually(lambda: server.firing() == of_events, "the end of those that are over")
