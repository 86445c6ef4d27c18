"""`duetime quiet-hours`: the hours of a user are shown, set and cleared."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from duetime.server.cli.main import run
from duetime.server.cli.notices.quiet_hours import show_hours

from tests.flow.cli.environment import isolate

Say = Callable[..., str]


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    isolate(monkeypatch, tmp_path)

    def answered(*arguments: str, code: int = 0) -> str:
        capsys.readouterr()
        assert run([*arguments]) == code
        written = capsys.readouterr()
        return written.out if code == 0 else written.err

    return answered


def test_hours_are_set_shown_and_cleared(say: Say) -> None:
    assert say("quiet-hours") == "No quiet hours for local, by the settings.\n"
    made = say("quiet-hours", "set", "22:00-07:00 America/Denver")
    assert made.startswith("Quiet hours of local: 22:00-07:00 America/Denver, set for this user.")
    found = json.loads(say("quiet-hours", "show", "--json"))
    assert (found["schema"], found["hours"], found["own"]) == (
        "duetime.quiet_hours/1",
        "22:00-07:00 America/Denver",
        True,
    )
    assert say("quiet-hours", "set", "none") == "No quiet hours for local, set for this user.\n"
    assert json.loads(say("quiet-hours", "clear", "--json"))["own"] is False
    kinds = [entry["kind"] for entry in json.loads(say("audit", "list", "--json"))["entries"]]
    assert kinds == ["quiet_hours_cleared", "quiet_hours_set", "quiet_hours_set"]


def test_the_end_of_quiet_hours_is_said_by_their_own_clock(capsys: pytest.CaptureFixture[str]) -> None:
    found = {"user": "ann", "tenant": "acme", "hours": "22:00-07:00 America/Denver", "own": True}
    show_hours({**found, "until": "2026-11-28T14:00:00Z"}, as_json=False)
    assert capsys.readouterr().out.endswith(" They end Sat 28 Nov 2026 07:00 America/Denver.\n")


def test_hours_of_another_user_are_theirs_alone(say: Say) -> None:
    say("quiet-hours", "set", "1:00-2:00", "--user", "ann", "--tenant", "acme")
    assert "ann of acme: 01:00-02:00 UTC" in say("quiet-hours", "show", "--user", "ann", "--tenant", "acme")
    assert "No quiet hours for ann of local" in say("quiet-hours", "show", "--user", "ann")


def test_a_text_without_hours_is_refused_with_the_likely_meaning(say: Say) -> None:
    assert "22:00-07:00" in say("quiet-hours", "set", "10pm to 7am", code=2)
