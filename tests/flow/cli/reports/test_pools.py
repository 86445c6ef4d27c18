"""`duetime explain`, `stats` and `pools`: what waits and for what, asked of the process that runs tasks."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from duetime import Context, Done, handler
from duetime.scheduler.rules.shares import Shares
from duetime.server.app import App, build
from duetime.server.cli.main import run
from duetime.server.settings.model import Settings

from tests.flow.waiting import eventually

GO = threading.Event()


@handler("hold", needs={"gpu": 1})
def hold(ctx: Context) -> Done:
    """Hold a slot until the test lets go."""
    GO.wait(60)
    return Done("let go")


@dataclass(frozen=True, slots=True)
class Ended:
    """The exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Ended]


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for name in [name for name in os.environ if name.upper().startswith("DUETIME_")]:
        monkeypatch.delenv(name)
    url = f"sqlite:///{tmp_path}/duetime.db"
    monkeypatch.setenv("DUETIME_DATABASE_URL", url)
    monkeypatch.setenv("DUETIME_TIMEZONE", "UTC")
    monkeypatch.setenv("DUETIME_DESKTOP_NOTIFICATIONS", "off")
    return url


@pytest.fixture
def cli(database: str, capsys: pytest.CaptureFixture[str]) -> Run:
    def ended(*arguments: str) -> Ended:
        code = run(arguments)
        said = capsys.readouterr()
        return Ended(code, said.out, said.err)

    return ended


@pytest.fixture
def app(database: str) -> Iterator[App]:
    GO.clear()
    options: Any = {"threads": 2, "yield_to_load": False, "desktop_notifications": "off"}
    settings = Settings(database_url=database, timezone="UTC", **options)
    with build(settings, handlers=[hold]) as built:
        built.start()
        eventually(lambda: built.remote_queue.stats() is not None, "the runner to answer")
        yield built
        GO.set()


def test_a_held_task_is_explained_by_another_process_with_who_holds_the_pool(app: App, cli: Run) -> None:
    cli("pools", "set", "gpu", '{"capacity": 1}')
    first = app.scheduler.schedule("Render the film", action="hold").record.task.id
    eventually(lambda: app.scheduler.get(first).record.run.state == "running", "the first to run")
    second = app.scheduler.schedule("Render the trailer", action="hold").record.task.id
    words = f"pool gpu: it needs 1, 0 of 1 are free; held by {first} «Render the film»"
    eventually(
        lambda: cli("explain", second, "--json").said["waiting_for"] == [words], "the second to stand behind gpu"
    )
    assert words in " ".join(cli("explain", second).out.split())
    assert app.scheduler.get(second).waiting_for == (words,)
    assert cli("explain", first).out.endswith("nothing: it is running, attempt 1 of 5\n")


def test_stats_print_what_is_promised_to_each_tier_and_what_is_used_of_each_pool(app: App, cli: Run) -> None:
    cli("pools", "set", "gpu", '{"capacity": 3}')
    eventually(lambda: "gpu" in (cli("stats", "--json").said["pools"]), "the queue to hear of the pool")
    said = cli("stats", "--json").said
    assert [row["bound"] for row in said["tiers"]] == [Shares().bound(rank) for rank in range(1, 6)]
    assert [(row["late"], row["patience_seconds"]) for row in said["tiers"]] == [
        (False, seconds) for seconds in (1, 30, 300, 1800, 14400)
    ]
    nothing = {"ready": 0, "started": 0, "ended": 0}
    windows = [{"seconds": seconds, **nothing} for seconds in (60, 300, 900)]
    assert said["throughput"] == {**windows[1], "windows": windows}
    assert [(row["ready"], row["at_least"]) for row in said["tiers"]] == [(0, False)] * 5
    assert said["pools"]["gpu"]["capacity"] == 3
    eventually(lambda: cli("stats", "--json").said["threads"], "the worker to report its threads")
    [threads] = cli("stats", "--json").said["threads"].values()
    counts = {"total": 2, "busy": 0, "preempted": 0, "lost": 0, "withheld": 0}
    assert threads == {**counts, "headroom": [0, 0, 0, 0, 0]}
    table = cli("stats").out
    assert "POOL" in table
    assert "PROCESS " in table
    assert "WORKER" not in table
    assert "`duetime stats` shows its threads" in " ".join(cli("workers").out.split())
    assert "GAVE WAY  LOST  WITHHELD" in table
    assert f"{Shares().bound(5)} dispatches" in table
    assert "gpu" in table


def test_stats_without_pools_show_no_empty_table_and_break_no_word_of_a_narrow_terminal(
    app: App, cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    table = cli("stats").out
    assert "POOL" not in table
    assert "background" in table
    assert "dispatches" in table


def test_stats_that_no_process_answers_say_what_is_late_all_the_same(cli: Run) -> None:
    assert cli("schedule", "Call John", "--when", "in 10 min").code == 0
    assert "late" not in cli("stats").err
    with time_machine.travel(datetime.now(UTC) + timedelta(minutes=20)):
        found = cli("stats")
    assert found.code == 1
    assert "no process is running tasks" in found.err
    assert "normal: 1 ready, the oldest for 10 min" in " ".join(found.err.split())


def test_stats_say_until_when_a_pool_is_closed_and_leave_out_what_nobody_declared_and_needs(app: App, cli: Run) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    hours = {f"{tomorrow:%a} 00:00-24:00".lower(): 2}
    cli("pools", "set", "night", json.dumps({"kind": "calendar", "capacity": 0, "hours": hours, "zone": "UTC"}))
    eventually(lambda: "night" in cli("stats", "--json").said["pools"], "the queue to hear of the pool")
    said = cli("stats", "--json").said
    opens = f"{tomorrow:%Y-%m-%d}T00:00:00Z"
    assert said["schema"] == "duetime.stats/1"
    assert said["waiting"] == dict.fromkeys(("critical", "high", "normal", "low", "background"), 0)
    assert {name: (use["state"], use["until"]) for name, use in said["pools"].items()} == {"night": ("closed", opens)}
    assert f"closed until {tomorrow:%a %-d %b %Y} 00:00 (in " in cli("stats").out


def test_pools_without_a_verb_are_listed(cli: Run) -> None:
    cli("pools", "set", "gpu", '{"capacity": 3}')
    assert cli("pools").out == cli("pools", "list").out
    assert cli("pools", "--json").said == cli("pools", "list", "--json").said


def test_pools_are_declared_listed_and_removed_from_the_command_line(cli: Run) -> None:
    assert "No pool is declared" in cli("pools", "list").out
    assert cli("pools", "set", "gpu", '{"capacity": 2}').out == "gpu: slots, 2 slots\n"
    assert cli("pools", "list", "--json").said["pools"] == {"gpu": {"kind": "slots", "capacity": 2}}
    assert "2 slots" in cli("pools", "list").out
    assert cli("pools", "remove", "gpu").code == 0
    assert cli("pools", "remove", "gpu").code == 3


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gpu", "Tasks that need it are held until it is declared again."),
        ("tenant:acme", "Runs that need it fall under tenant:*."),
        ("key:customer-1", "Runs that need it fall under key:*."),
        ("tenant:*", "Tenants without a quota of their own have none."),
        ("key:*", "Each concurrency key is one slot again."),
    ],
)
def test_the_removal_of_a_pool_says_what_becomes_of_what_needs_it(cli: Run, name: str, said: str) -> None:
    assert cli("pools", "set", name, '{"capacity": 2}').code == 0
    assert cli("pools", "remove", name).out == f"Removed {name}. {said}\n"


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ('{"capacity": -1}', "pools.gpu.capacity: it is -1"),
        ('{"capcity": 2, "headroom": 3}', """Example: '{"headroom": 0.9, "capacity": 2}'"""),
        ('{"capacity": 1', "is not JSON"),
        ("[1]", "it is not an object"),
    ],
)
def test_a_wrong_declaration_is_refused_in_one_sentence(cli: Run, spec: str, said: str) -> None:
    ended = cli("pools", "set", "gpu", spec)
    assert ended.code == 2
    assert said in ended.err
    assert cli("pools", "list", "--json").said["pools"] == {}


def test_without_a_runner_the_queue_cannot_be_asked_and_that_is_said(cli: Run) -> None:
    ended = cli("stats")
    assert ended.code == 1
    assert "no process is running tasks" in ended.err


@pytest.mark.postgres
def test_in_a_shared_installation_a_queue_that_cannot_be_asked_is_told_by_its_cause(
    cli: Run, postgres_url: str, valkey_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUETIME_DATABASE_URL", postgres_url)
    monkeypatch.setenv("DUETIME_REDIS_NAMESPACE", tmp_path.name)
    monkeypatch.setenv("DUETIME_REDIS_URL", "redis://127.0.0.1:1/0")
    assert cli("migrate").code == 0
    away = cli("stats")
    assert away.err.startswith("duetime: Redis does not answer, so the queue cannot be queried")
    monkeypatch.setenv("DUETIME_REDIS_URL", valkey_url)
    empty = cli("stats")
    assert empty.err.startswith("duetime: the queue in Redis is empty; the first running `duetime worker`")
    assert (away.code, empty.code) == (1, 1)
