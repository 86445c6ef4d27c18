"""`duetime decisions`: why a run went first, from the record of a real run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from duetime.scheduler.request import Request
from duetime.server.app import build
from duetime.server.cli.main import run
from duetime.server.settings.source import load_settings

from tests import blank
from tests.flow.waiting import eventually


@pytest.fixture(autouse=True)
def _database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blank.make(tmp_path / "duetime.db")
    monkeypatch.setenv("DUETIME_DATABASE_URL", f"sqlite:///{tmp_path / 'duetime.db'}")
    monkeypatch.setenv("DUETIME_TIMEZONE", "UTC")
    monkeypatch.setenv("DUETIME_DESKTOP_NOTIFICATIONS", "off")
    monkeypatch.setenv("HOME", str(tmp_path))


def ran(title: str) -> str:
    """Run a task to its end in a process of its own; return its id."""
    with build(load_settings()) as app:
        app.start()
        task_id = app.scheduler.submit(Request(title, when="now", priority="high")).record.task.id
        eventually(lambda: app.scheduler.get(task_id).record.run.ended_at is not None, "the end of the run")
    return task_id


def test_a_decision_is_listed_shown_in_words_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    task_id, other = ran("Call John"), ran("Call Mary")
    assert run(["decisions", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["decisions"]
    shown = dict.fromkeys(each["task_id"] for each in found)  # a take whose run was not there yet is recorded as well
    assert list(shown) == [other, task_id]
    decisions = [each for each in found if each["task_id"] == task_id]
    assert run(["decisions", "--task", "call john"]) == 0
    _, *rows = capsys.readouterr().out.splitlines()
    assert [row.split()[-2:] for row in rows] == [[task_id, each["id"]] for each in decisions]
    assert "only tier with a run that could start" in rows[0]
    assert run(["decisions", "show", decisions[0]["id"]]) == 0
    first, taken, *_, policy = capsys.readouterr().out.splitlines()
    assert first.endswith(f"task {task_id}")
    assert taken.startswith(f"  Run {decisions[0]['run_id']} of tier high was taken by worker ")
    assert policy == "  Version 0 of the policy was in force."


def test_an_empty_list_says_whether_anything_is_recorded(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(["decisions"])
    assert capsys.readouterr().out.startswith("No decisions: ")
    monkeypatch.setenv("DUETIME_DECISIONS_PER_MINUTE", "0")
    ran("Call John")
    run(["decisions"])
    assert capsys.readouterr().out.startswith("No decisions: ")


def test_an_unknown_decision_is_not_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["decisions", "show", "d_1"]) == 3
    assert "no decision 'd_1'" in capsys.readouterr().err
