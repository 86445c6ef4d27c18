"""`duetime alerts` lists what fires, and says when nobody watches."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from duetime.scheduler.rules.alerts.alert import Alert, Phase
from duetime.scheduler.store import open_store
from duetime.server.cli.main import run

from tests import blank

Said = Callable[..., str]
CHANNEL = '[channels.team]\nwebhook = "https://example.com/hook"\nsecret = "whsec_' + "QUJD" * 10 + '"\n'


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """Run a command on a database of the test's own; return stdout, or stderr where it fails."""
    for name in [name for name in os.environ if name.upper().startswith("DUETIME_")]:
        monkeypatch.delenv(name)
    blank.make(tmp_path / "duetime.db")
    monkeypatch.setenv("DUETIME_DATABASE_URL", f"sqlite:///{tmp_path}/duetime.db")
    monkeypatch.setenv("DUETIME_CONFIG", f"{tmp_path}/duetime.toml")
    (tmp_path / "duetime.toml").write_text('alert_channels = ["team"]\n' + CHANNEL)
    open_store(f"sqlite:///{tmp_path}/duetime.db").close()

    def answered(*arguments: str, code: int = 0) -> str:
        capsys.readouterr()
        assert run(arguments) == code
        written = capsys.readouterr()
        return written.err if code else written.out

    return answered


def keep(tmp_path: Path, *kept: tuple[str, str, Phase]) -> None:
    store = open_store(f"sqlite:///{tmp_path}/duetime.db")
    for rule, key, phase in kept:
        store.alerts.replace(rule, {}, {key: Alert(rule, key, phase, store.now() - timedelta(hours=2), 1.0)})
    store.close()


def test_alerts_are_listed_the_firing_ones_first(said: Said, tmp_path: Path) -> None:
    over, firing = ("DuetimeDeadLetters", "", Phase.RESOLVED), ("DuetimeBreakerOpen", "api", Phase.FIRING)
    keep(tmp_path, over, firing, ("OfANewerVersion", "", Phase.FIRING))
    rows = [line.split()[:2] for line in said("alerts").splitlines()[1:]]
    assert rows == [["firing", "DuetimeBreakerOpen"], ["resolved", "DuetimeDeadLetters"]]
    found = json.loads(said("alerts", "--json"))
    assert (found["schema"], found["watched"], len(found["alerts"])) == ("duetime.alerts/1", True, 2)
    assert found["alerts"][1]["text"] == "more than 5 runs became dead letters within 15 minutes"
    first = found["alerts"][0]
    assert (first["about"], first["severity"], first["text"]) == (
        "api",
        "ticket",
        "the breaker of the pool api is open: its calls fail",
    )


def test_without_a_channel_it_says_that_nobody_watches(said: Said, tmp_path: Path) -> None:
    assert said("alerts").startswith("No alert fires")
    (tmp_path / "duetime.toml").write_text(CHANNEL)
    assert said("alerts").startswith("No process watches for alerts")


def test_a_channel_that_there_is_not_is_refused(said: Said, tmp_path: Path) -> None:
    (tmp_path / "duetime.toml").write_text('alert_channels = ["tema"]\n' + CHANNEL)
    assert "alert_channels names 'tema', which is not a channel" in said("alerts", code=2)
