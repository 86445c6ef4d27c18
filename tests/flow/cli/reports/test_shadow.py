"""`duetime policy shadow`: numbers, a file or a version; the comparison; its end."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from duetime.server.cli.main import run


@pytest.fixture(autouse=True)
def _database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUETIME_DATABASE_URL", f"sqlite:///{tmp_path / 'duetime.db'}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DUETIME_TIMEZONE", "Asia/Tokyo")


def test_a_shadow_is_set_shown_and_ended(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["policy", "shadow", "patience.low=2 minutes", "shares.low=0.12", "--reason", "late"]) == 0
    first, *lines, compared, how, end = capsys.readouterr().out.splitlines()
    assert first.startswith("shadow of version 0, set by local at ")
    assert re.search(r" at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d Asia/Tokyo: late$", first)
    assert lines == ["  patience.low: 1800 -> 120", "  shares.low: 0.1 -> 0.12"]
    assert compared.startswith("No decision under the policy in force is recorded yet")
    assert how == """Put it in force: duetime policy set '{"patience": {"low": 120.0}, "shares": {"low": 0.12}}'"""
    assert end == "End it: duetime policy shadow --off"
    (tmp_path / "new.json").write_text('{"value": {"high": 10}}')
    run(["policy", "shadow", str(tmp_path / "new.json"), "--json"])
    assert json.loads(capsys.readouterr().out)["switch_on"] == {"value": {"high": 10}}
    assert run(["policy", "set", "value.high=9"]) == 0
    assert run(["policy", "shadow", "0"]) == 0
    capsys.readouterr()
    assert run(["policy", "shadow"]) == 0
    assert "  value.high: 9 -> 8" in capsys.readouterr().out
    assert run(["policy", "shadow", "--off"]) == 0
    assert capsys.readouterr().out == "The shadow policy has ended.\n"
    assert run(["policy", "shadow"]) == 3
    assert "there is no shadow policy" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [["no-such-file"], ["shares.low=7"], ["0", "--off"], ["9"], ["value.high=8"]])
def test_a_wrong_shadow_is_refused_with_an_example(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["policy", "shadow", *wrong]) == 2
    assert "Example: " in capsys.readouterr().err
