"""A real Prometheus scrapes a whole installation that goes wrong: servers and workers, with the key of an operator.

Every part is real: PostgreSQL and Redis, `duetime serve` and three workers. One worker is killed and one has a wrong
clock. Only the `for` of the rules is shorter.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
from duetime.scheduler.access.api_key import ApiKey
from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.rules.alerts.alert_rules import ALERT_RULES
from duetime.scheduler.store import migrate_store
from duetime.scheduler.store.workers import DrainMode
from duetime.scheduler.task import RetryPolicy, State
from duetime.server.app import App, build
from duetime.server.auth.key_format import KeyText
from duetime.server.settings.model import Settings

from tests import forked
from tests.faults.conftest import ROOT
from tests.flow.telemetry.scraper import Server, scraping
from tests.flow.waiting import eventually
from tests.services import reserved_port

pytestmark = [pytest.mark.faults, pytest.mark.postgres]

POOLS: dict[str, dict[str, Any]] = {
    "api": {"kind": "slots", "capacity": 8, "breaker": {"failures": 3}},
    "gpu": {"kind": "slots", "capacity": 1},
    "line": {"kind": "slots", "capacity": 1},
    "tokens": {"kind": "budget", "capacity": 100, "per": "day"},
}
CLOCK_OFF_S = "-42"
SECOND_ROUND_RUN_COUNT = 30
SCRAPE_PAUSE_S = 0.25
"""Seconds between two questions to Prometheus, which knows something new each second."""
DRAINED = "DuetimeWorkersDrained"
OF_SQLITE = "DuetimeDiskNearlyFull"
"""The server of PostgreSQL watches its own disk; `test_prometheus_server.py` lets this alert fire."""


class House:
    """The processes of an installation, and an application that schedules."""

    def __init__(self, folder: Path, database: str, redis: str) -> None:
        self.folder = folder
        self._given = {
            "DUETIME_DATABASE_URL": database,
            "DUETIME_REDIS_URL": redis,
            "DUETIME_TIMEZONE": "UTC",
            "DUETIME_AUTH": "keys",
            "DUETIME_POOLS": json.dumps(POOLS),
            "DUETIME_DESKTOP_NOTIFICATIONS": "off",
            "DUETIME_YIELD_TO_LOAD": "false",
            "DUETIME_LOG_FORMAT": "text",
            "DUETIME_THREADS": "8",
        }
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, *command: str, handlers: str = "", port: int | None = None) -> subprocess.Popen[bytes]:
        """Start a process of `duetime`, and return when it is up."""
        log = self.folder / f"log-{len(self._processes)}"
        own = {"DUETIME_HANDLERS": handlers, "DUETIME_METRICS_PORT": "" if port is None else str(port)}
        kept = {name: value for name, value in os.environ.items() if not name.startswith("DUETIME_")}
        environment = {name: value for name, value in (kept | self._given | own).items() if value}
        with log.open("wb") as output:
            process = forked.popen(
                [sys.executable, "-m", *command], cwd=ROOT, env=environment,
                stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip
        self._processes.append(process)
        eventually(lambda: any(word in log.read_text() for word in ("serves MCP at", "now runs tasks")), "a process")
        return process

    def end(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait()


@contextmanager
def installation(folder: Path, database: str, redis: str) -> Iterator[tuple[House, App]]:
    migrate_store(database)
    house = House(folder, database, redis)
    settings = Settings(
        database_url=database,
        redis_url=redis,
        handlers=("tests.flow.telemetry.troubled_handlers",),
        timezone="UTC",
        pools=POOLS,
        desktop_notifications="off",
    )
    with build(settings) as app:
        app.registry.declare(POOLS)
        try:
            yield house, app
        finally:
            house.end()


def operators_key(app: App) -> str:
    text = KeyText.new()
    app.store.api_keys.add(
        ApiKey(text.id, LOCAL.tenant, "ops", ("admin:read",), "prometheus", text.digest, app.store.now(), None)
    )
    return text.text


def refusals(address: str, token: str) -> list[int]:
    """Return the answers of an endpoint to nobody, and to the operator."""
    with httpx2.Client(trust_env=False) as client:
        headers: list[dict[str, str]] = [{}, {"Authorization": f"Bearer {token}"}]
        return [client.get(address, headers=each).status_code for each in headers]


def schedule(app: App, title: str, **arguments: Any) -> None:
    app.scheduler.schedule(title, when="now", **arguments)


def counted_work_goes_wrong(app: App, rounds: int, attempts: int) -> None:
    """Let calls fail until they are dead letters, and others come too late for their deadlines."""
    for number in range(rounds):
        schedule(app, f"Call {number} of {rounds}", action="flaky", retry=RetryPolicy(max_attempts=attempts))
        late = {"deadline": "1 second", "deadline_type": "soft-linear", "payload": {"seconds": 0.2}}
        schedule(app, f"Late {number} of {rounds}", action="works", needs={"line": 1}, **late)


def limits_are_hit(app: App) -> None:
    """Trip a breaker, overrun a budget, and let critical work wait for a pool that another run holds."""
    for number in range(5):
        schedule(app, f"API {number}", action="flaky", needs={"api": 1})
    schedule(app, "Spend", action="spends", needs={"tokens": 50})
    hold = app.scheduler.schedule("Hold", when="now", action="works", needs={"gpu": 1}, payload={"seconds": 120})
    eventually(lambda: app.scheduler.get(hold.record.task.id).record.run.state is State.RUNNING, "the pool is held")
    schedule(app, "Starve", action="works", needs={"gpu": 1}, priority="critical")


def test_each_alert_fires_on_an_installation_in_which_its_state_arises(
    prometheus: str, migrated_postgres_url: str, valkey_url: str, tmp_path: Path
) -> None:
    with (
        installation(tmp_path, migrated_postgres_url, valkey_url) as (house, app),
        reserved_port() as web,
        reserved_port() as one,
        reserved_port() as two,
    ):
        handlers = "tests.flow.telemetry.troubled_handlers"
        house.start("duetime", "serve", "--port", str(web), handlers=handlers)
        house.start("duetime", "worker", handlers=handlers, port=one)
        house.start("tests.faults.wrong_clock", CLOCK_OFF_S, "worker", port=two)
        lost = house.start("duetime", "worker")
        token = operators_key(app)
        addresses = [f"http://127.0.0.1:{port}/metrics" for port in (web, one, two)]
        assert [refusals(address, token) for address in addresses] == [[401, 200]] * 3
        with scraping(prometheus, tmp_path, *addresses, token=token) as server:
            every_alert_fires(server, app, lost)


def every_alert_fires(server: Server, app: App, lost: subprocess.Popen[bytes]) -> None:
    eventually(
        lambda: server.firing() == {"DuetimeClockSkew"},
        "a clock that is wrong from the start",
        max_pause=SCRAPE_PAUSE_S,
    )
    counted_work_goes_wrong(app, 1, attempts=2)  # Prometheus counts from when it first sees a number
    for name in ("dead_letters", "deadlines", "retries"):
        eventually(partial(server.has, f"duetime_{name}_total > 0"), f"the first of {name}", max_pause=SCRAPE_PAUSE_S)
    lost.kill()
    limits_are_hit(app)
    counted_work_goes_wrong(app, SECOND_ROUND_RUN_COUNT, attempts=6)
    every = {rule.name for rule in ALERT_RULES} - {DRAINED, OF_SQLITE}
    eventually(lambda: server.firing() == every, "every alert but the last", max_pause=SCRAPE_PAUSE_S)
    app.store.workers.drain(None, DrainMode.FINISH, AuditEntry(LOCAL.tenant, AuditKind.WORKER_DRAINED, "ops"))
    eventually(lambda: DRAINED in server.firing(), "the workers are drained", max_pause=SCRAPE_PAUSE_S)
