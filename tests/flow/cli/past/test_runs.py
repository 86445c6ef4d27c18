"""`duetime runs` and `duetime failed --since`: what ran when, what failed last night, and why."""

from __future__ import annotations

import csv
import io
import json
import shlex
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Failed, Outcome
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.run_records import Start
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import open_store
from duetime.scheduler.store.run_history import run_list
from duetime.server.cli.main import run

from tests import blank
from tests.builders import LEASE, Clock
from tests.flow.cli.environment import isolate

Say = Callable[..., str]
MORNING = datetime(2026, 11, 24, 8, tzinfo=UTC)


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    """Run a command at eight in the morning and return what it writes."""
    isolate(monkeypatch, tmp_path)
    blank.make(tmp_path / "duetime.db")

    def said(*arguments: str) -> str:
        with time_machine.travel(MORNING, tick=False):
            assert run(arguments) == 0
        return capsys.readouterr().out

    return said


@pytest.fixture(autouse=True)
def past(tmp_path: Path) -> None:
    """Let three tasks run: one fails before the night, one in it and one succeeds; a fourth is due later."""
    clock = Clock(MORNING - timedelta(hours=16))
    blank.make(tmp_path / "duetime.db")
    store = open_store(f"sqlite:///{tmp_path}/duetime.db", clock=clock)
    scheduler = Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC"))
    ends: list[tuple[str, int, Outcome]] = [
        ("Old import", 16, Failed("no such file")),
        ("Night import", 6, Failed("HTTP 503")),
        ("Backup", 5, Done("copied")),
    ]
    for title, hours_ago, outcome in ends:
        clock.at = MORNING - timedelta(hours=hours_ago)
        scheduler.schedule(title, when=clock.at, labels=["nightly"])
        ready = [Start(each.run_id) for each in store.claims.make_ready(limit=9)]
        claims = store.claims.start(ready, worker="w7", epoch=None, lease=LEASE)
        clock.forward(seconds=90)
        store.claims.settle([settle(claim, outcome, now=clock.at, jitter=0.0) for claim in claims])
    scheduler.schedule("Later", when=MORNING + timedelta(days=1))
    store.close()


def titles(answer: str) -> list[str]:
    return [each["title"] for each in json.loads(answer)["runs"]]


def test_runs_to_come_are_listed_as_they_are_due(cli: Say) -> None:
    cli("schedule", "Last", "--when", "in 3 days")
    assert titles(cli("runs", "--state", "scheduled", "--json")) == ["Last", "Later"]
    assert titles(cli("runs", "--state", "scheduled", "--oldest-first", "--json")) == ["Later", "Last"]


def test_one_command_lists_the_failures_of_last_night_and_why(cli: Say, capsys: pytest.CaptureFixture[str]) -> None:
    head, *rows = cli("failed", "--since", "last night").splitlines()
    assert head.split() == [
        "AT",
        "(UTC)",
        "STATE",
        "TITLE",
        "ACTION",
        "TOOK",
        "ATTEMPTS",
        "WORKER",
        "WHY",
        "TASK",
        "RUN",
    ]
    [row] = rows
    assert row.split("  ")[0] == "2026-11-24 02:01:30"
    for said in ("failed", "Night import", "reminder", "1 min 30 s", "w7", "HTTP 503"):
        assert said in row


def test_it_says_how_the_log_of_a_run_is_found(cli: Say, capsys: pytest.CaptureFixture[str]) -> None:
    run_id = json.loads(cli("failed", "--since", "last night", "--json"))["runs"][0]["id"]
    with time_machine.travel(MORNING, tick=False):
        run(["failed", "--since", "last night"])
    assert f"duetime logs {run_id}" in capsys.readouterr().err


def test_runs_are_listed_newest_first_up_to_now(cli: Say) -> None:
    assert titles(cli("runs", "--json")) == ["Backup", "Night import", "Old import"]
    assert titles(cli("runs", "--until", "in 3 days", "--json"))[0] == "Later"


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (["--state", "failed"], ["Night import", "Old import"]),
        (["--state", "open"], ["Later"]),
        (["--since", "yesterday", "--until", "last night"], ["Old import"]),
        (["--text", "http"], ["Night import"]),
        (["--title", "IMPORT"], ["Night import", "Old import"]),
        (["--title", "http"], []),
        (["--error", "http"], ["Night import"]),
        (["--error", "import"], []),
        (["--label", "nightly", "--worker", "w7", "--state", "succeeded"], ["Backup"]),
        (["--min-duration", "2 min"], []),
        (["--min-duration", "90", "--state", "succeeded"], ["Backup"]),
        (["--max-duration", "2 min", "--text", "import"], ["Night import", "Old import"]),
        (["--min-attempts", "2"], []),
        (["--tier", "high"], []),
        (["--priority", "high"], []),
        (["--priority", "normal", "--text", "http"], ["Night import"]),
        (["--pool", "gpu"], []),
        (["--task", "backup"], ["Backup"]),
        (["--actor", "local", "--action", "reminder"], ["Backup", "Night import", "Old import"]),
        (["--tenant", "*"], ["Backup", "Night import", "Old import"]),
        (["--tenant", "other"], []),
    ],
)
def test_they_are_filtered(cli: Say, filters: list[str], expected: list[str]) -> None:
    assert titles(cli("runs", *filters, "--json")) == expected


def test_a_page_is_filled_however_far_back_the_next_match_is(cli: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_list, "MAX_RUNS_SEARCHED_FIRST", 1)
    monkeypatch.setattr(run_list, "MAX_RUNS_SEARCHED", 2)
    assert titles(cli("runs", "--min-duration", "90", "--json")) == ["Backup", "Night import", "Old import"]


def test_a_page_says_how_to_get_the_next_one(cli: Say) -> None:
    page: dict[str, Any] = json.loads(cli("runs", "--limit", "2", "--json"))
    assert titles(cli("runs", "--limit", "2", "--cursor", page["cursor"], "--json")) == ["Old import"]
    for more in ([], ["--state", "ended", "--oldest-first"]):
        command = cli("runs", "--limit", "2", *more).splitlines()[-1].removeprefix("More: duetime ")
        assert ("--oldest-first" in command) is bool(more)
        assert len(titles(cli(*shlex.split(command), "--json"))) == 1


def test_they_are_written_as_csv(cli: Say) -> None:
    rows = list(csv.DictReader(io.StringIO(cli("runs", "--csv"))))
    assert [(row["title"], row["error"], row["attempts"]) for row in rows] == [
        ("Backup", "", "1"), ("Night import", "HTTP 503", "1"), ("Old import", "no such file", "1"),
    ]  # fmt: skip


def test_they_are_counted_by_group_and_by_time(cli: Say) -> None:
    assert json.loads(cli("runs", "--count-by", "state", "--json"))["counts"] == {"failed": 2, "succeeded": 1}
    assert [line.split() for line in cli("runs", "--count-by", "error").splitlines()[1:]] == [
        ["HTTP", "503", "1"], ["no", "such", "file", "1"],
    ]  # fmt: skip
    buckets = json.loads(cli("runs", "--bucket", "day", "--json"))["buckets"]
    assert [(each["start"], each["counts"]) for each in buckets] == [
        ("2026-11-23T00:00:00Z", {"failed": 1}),
        ("2026-11-24T00:00:00Z", {"failed": 1, "succeeded": 1}),
    ]
    assert cli("runs", "--bucket", "day", "--csv").splitlines()[0] == "start,failed,succeeded"


@pytest.mark.parametrize(
    "wrong", [["--priority", "urgent"], ["--min-duration", "soon"], ["--state", "lost"], ["--since", "whenever"]]
)
def test_a_wrong_filter_is_refused(cli: Say, wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["runs", *wrong]) == 2
    assert wrong[0] in capsys.readouterr().err
