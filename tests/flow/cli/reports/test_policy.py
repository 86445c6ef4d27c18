"""`duetime policy`: what it shows, what a change says before and after, and how it is taken back."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from duetime.scheduler.task import Tier
from duetime.server.app import build
from duetime.server.cli.main import run
from duetime.server.settings.source import load_settings

from tests import blank
from tests.builders import added


@pytest.fixture(autouse=True)
def _database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blank.make(tmp_path / "duetime.db")
    monkeypatch.setenv("DUETIME_DATABASE_URL", f"sqlite:///{tmp_path / 'duetime.db'}")
    monkeypatch.setenv("DUETIME_TIMEZONE", "Asia/Tokyo")
    monkeypatch.setenv("HOME", str(tmp_path))


def test_a_change_is_tried_made_listed_and_taken_back(capsys: pytest.CaptureFixture[str]) -> None:
    changes = ("patience.normal=2 minutes", "shares.low=0.12")
    assert run(["policy", "set", *changes, "--dry-run"]) == 0
    lines = ["  patience.normal: 300 -> 120", "  shares.low: 0.1 -> 0.12"]
    assert capsys.readouterr().out.splitlines() == ["this would change:", *lines]
    assert run(["policy", "set", *changes, "--reason", "chats wait"]) == 0
    assert capsys.readouterr().out.splitlines() == ["version 1 is in force:", *lines]
    run(["policy", "history"])
    told, *rest = capsys.readouterr().out.splitlines()
    assert told.startswith("version 1, set by local at ")
    assert re.search(r" at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d Asia/Tokyo: chats wait$", told)
    assert rest == lines
    assert run(["policy", "rollback", "0"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "version 2 is in force:"
    run(["policy", "show", "--json"])
    shown = json.loads(capsys.readouterr().out)
    assert (shown["version"], shown["policy"]["patience"]["normal"]) == (2, 300)


def test_a_change_of_patience_says_how_many_waiting_runs_it_moves(capsys: pytest.CaptureFixture[str]) -> None:
    with build(load_settings()) as app:
        for _ in range(3):
            added(app.store, app.store.now(), priority=Tier.LOW)
    run(["policy", "set", "patience.low=120", "--dry-run"])
    assert capsys.readouterr().out.splitlines()[-1] == "3 waiting runs would get new places in the order"


def test_the_policy_in_force_is_shown_by_tier_and_counts_in_the_statistics(capsys: pytest.CaptureFixture[str]) -> None:
    run(["policy", "show"])
    assert "nobody has changed" in capsys.readouterr().out
    run(["policy", "set", '{"shares": {"low": 0.12}, "headroom": {"critical": 0.25}}'])
    capsys.readouterr()
    run(["policy", "show"])
    rows = {line.split()[0]: line.split() for line in capsys.readouterr().out.splitlines()[2:]}
    assert rows["low"] == ["low", "30", "min", "2", "12%", "50%", "-"]
    assert rows["critical"][-1] == "25.0%"
    with build(load_settings()) as app:
        assert app.backlog.report().shares.guaranteed[3] == 0.12


@pytest.mark.parametrize("wrong", ["patience", "patience.normal", "{", "shares.critical=0.79", "patience.normal=soon"])
def test_a_wrong_change_is_refused_with_an_example(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["policy", "set", wrong]) == 2
    assert "Example: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        (["patience.normal=soon", "value.hihg=3"], "patience.normal='2 minutes' value.high=3"),
        (['{"patience": {"normal": "soon"}}'], """'{"patience": {"normal": "2 minutes"}}'"""),
    ],
)
def test_a_wrong_change_is_corrected_as_it_was_typed(
    wrong: list[str], right: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for verb in ("set", "shadow"):
        assert run(["policy", verb, *wrong]) == 2
        assert capsys.readouterr().err.splitlines()[-1].endswith(f"Example: {right}")
    assert run(["policy", "set", *shlex.split(right)]) == 0
