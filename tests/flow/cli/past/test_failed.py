"""`duetime failed` and `list --state failed`: what failed, and why."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Failed
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.run_records import Start
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import open_store
from duetime.server.cli.main import run

from tests import blank
from tests.builders import LEASE, NOON, Clock
from tests.flow.cli.environment import isolate

Say = Callable[..., str]


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    isolate(monkeypatch, tmp_path)
    blank.make(tmp_path / "duetime.db")

    def said(*arguments: str) -> str:
        assert run(arguments) == 0
        return capsys.readouterr().out

    return said


@pytest.fixture
def failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Make two tasks that failed, the newer one first; one is scheduled again each day."""
    monkeypatch.setattr("duetime.scheduler.store.store.utc_now", lambda: NOON + timedelta(hours=1))
    clock = Clock(NOON)
    blank.make(tmp_path / "duetime.db")
    store = open_store(f"sqlite:///{tmp_path}/duetime.db", clock=clock)
    scheduler = Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC"))
    daily = scheduler.schedule("Daily report", when=NOON, repeat="every day at 12:00")
    once = scheduler.schedule("Send it", when=NOON + timedelta(minutes=5))
    for reason in ("no such file", "no address"):
        ready = [Start(each.run_id) for each in store.claims.make_ready(limit=9)]
        claims = store.claims.start(ready, worker="w", epoch=None, lease=LEASE)
        store.claims.settle([settle(claim, Failed(reason), now=clock.at, jitter=0.0) for claim in claims])
        clock.forward(minutes=5)
    store.close()
    return [once.record.task.id, daily.record.task.id]


def test_it_lists_title_end_attempts_and_reason_newest_first(cli: Say, failed: list[str]) -> None:
    head, *rows, counts = cli("failed").splitlines()
    assert head.split() == ["ID", "TITLE", "ENDED", "ATTEMPTS", "WHY", "NEXT"]
    assert [row.split()[0] for row in rows] == failed
    assert " Daily report  Tue 24 Nov 2026 12:00 UTC " in rows[1]
    assert " 1         no such file  Wed 25 Nov 2026 12:00 UTC" in rows[1]
    assert rows[0].endswith("no address")
    assert counts == "2 failed"
    assert cli("list", "--state", "failed") == cli("failed")


def test_json_and_filters_and_pages_are_those_of_the_list(cli: Say, failed: list[str]) -> None:
    page = json.loads(cli("failed", "--json"))
    assert [row["id"] for row in page["tasks"]] == failed
    assert {**page, "now": ""} == {**json.loads(cli("list", "--state", "failed", "--json")), "now": ""}
    assert json.loads(cli("failed", "--query", "report", "--json"))["counts"] == {"failed": 1}
    first = cli("failed", "--limit", "1")
    command = first.splitlines()[-1].removeprefix("More: duetime ").split()
    assert command[0] == "failed"
    assert failed[1] in cli(*command)


def test_the_counts_of_the_whole_list_are_the_same(cli: Say, failed: list[str]) -> None:
    assert cli("list").splitlines()[-1] == "1 scheduled; 2 failed when they last ran"


def test_a_list_that_ends_in_the_future_has_every_occurrence(cli: Say) -> None:
    cli("schedule", "Water", "--repeat", "every 2 hours", "--need", "key:can=1", "--estimate", "3 hours")
    lines = cli("list", "--before", "in 7 hours").splitlines()
    assert [line.split()[0] for line in lines[1:4]] == [lines[1].split()[0]] * 3
    assert lines[4] == "1 scheduled"
    assert lines[5].startswith("Clash ")
    assert "key:can (1 slot) cannot hold «Water» (" in lines[5]


def test_nothing_that_failed_says_so(cli: Say) -> None:
    assert cli("failed") == "No task failed when it last ran.\n"
