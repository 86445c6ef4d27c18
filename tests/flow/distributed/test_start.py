"""A process that starts while PostgreSQL restarts waits for it, and ends when that takes long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import pytest
from duetime.scheduler.errors import InvalidSetting, StoreUnavailable
from duetime.server.runtime import start
from duetime.server.runtime.start import START_PATIENCE_S, once_reachable
from duetime.server.settings.model import Settings
from duetime.server.transport import serve_http
from duetime.server.workers import worker

SHARED = "postgresql+psycopg://db.invalid/duetime"


class Restarting:
    """A database that is away for the first tries, by a clock of its own."""

    def __init__(self, tries: float) -> None:
        self.left, self.now = tries, 0.0

    def make(self) -> str:
        if self.left > 0:
            self.left -= 1
            raise StoreUnavailable("the database system is starting up.")
        return "made"

    def pause(self, seconds: float) -> bool:
        self.now += seconds
        return False


def start_of(database: Restarting, url: str = SHARED, pause: Callable[[float], bool] | None = None) -> str:
    return once_reachable(url, database.make, pause=pause or database.pause, clock=lambda: database.now)


def test_a_restart_of_some_seconds_is_waited_for_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    assert start_of(Restarting(5)) == "made"
    [said] = caplog.messages
    assert said == "the database system is starting up. This process waits 10 s for the database"


def test_a_longer_one_ends_the_start(caplog: pytest.LogCaptureFixture) -> None:
    database = Restarting(float("inf"))
    with pytest.raises(StoreUnavailable):
        start_of(database)
    assert database.now == START_PATIENCE_S
    assert len(caplog.messages) == 1


def test_a_file_and_a_process_that_ends_wait_for_nothing() -> None:
    with pytest.raises(StoreUnavailable):
        start_of(Restarting(1), "sqlite:///duetime.db")
    with pytest.raises(StoreUnavailable):
        start_of(Restarting(1), pause=lambda _: True)


@pytest.mark.parametrize("role", ["serve", "work"])
def test_servers_and_workers_wait(monkeypatch: pytest.MonkeyPatch, role: str) -> None:
    tries: list[str] = []

    def build(_settings: Settings, **_: Any) -> NoReturn:
        tries.append(role)
        raise StoreUnavailable("starting up") if len(tries) < 3 else InvalidSetting("reached")

    monkeypatch.setattr(start, "START_RETRY_INTERVAL_S", 0.0)
    settings = Settings(database_url=SHARED, redis_url="redis://nowhere.invalid", timezone="UTC", port=0)
    for module in (serve_http, worker):
        monkeypatch.setattr(module, "build", build)
        monkeypatch.setattr(module, "configure_logs", lambda *_, **__: False)
    with pytest.raises(InvalidSetting, match="reached"):
        serve_http.serve_http(settings) if role == "serve" else worker.run_worker(settings)
    assert len(tries) == 3
