"""A person at a terminal: narrow windows, ids that are typed in part, and completion; docs/terminal.md is made here."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest
import time_machine
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Failed
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.run_records import Start
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import open_store
from duetime.scheduler.task import Json
from duetime.server.cli.main import run

from tests.builders import Clock
from tests.flow.cli.environment import isolate

PAGE = Path(__file__).parents[4] / "docs" / "terminal.md"
NOW = datetime(2026, 11, 22, 16, 0, tzinfo=UTC)
FIRST_ID_SEED = 0x1C8A5F0E3B7D246
INTRODUCTION = """\
# A session in a terminal

The same commands at 80 and at 60 columns. Columns give way where a terminal is narrow; an id is never broken, so that
it can be copied. Where an id is asked for, its beginning or a title that no other task has will do. Before the session
a webhook has failed. A test makes this page (`WRITE_PAGES=1 pytest tests/flow/cli/command/test_terminal.py`).
"""
HOOK: dict[str, Json] = {"url": "https://example.com/orders", "headers": {"Authorization": "Bearer 3f9a1c77"}}
ANSWER: dict[str, Json] = {"status": 404, "body": "There is no export of that name."}
COMMANDS = (
    "duetime schedule 'Call John about the contract' --when 'tomorrow 9am' --label home",
    "duetime schedule 'Stand-up' --repeat 'every weekday at 9:00'",
    "duetime schedule 'Export the report' --when 'in 2 hours' --label work --need gpu=1",
    "duetime list",
    "duetime show stand-up",
    "duetime inbox",
    "duetime show 'send orders'",
    "duetime cancel 'export the report' --reason 'John has it'",
    "duetime history",
    "duetime inbox done --all",
    "duetime list --csv --limit 2",
)

STYLE = re.compile(r"\x1b\[[0-9;]*m")

Said = Callable[..., str]
Completed = Callable[[str], list[str]]


class Screen:
    """Makes stdout of the test a terminal of some width."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def columns(self, width: int) -> None:
        self._monkeypatch.setenv("COLUMNS", str(width))
        self._monkeypatch.setattr("sys.stdout.isatty", lambda: True)


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """Run a command on a database of the test's own and return what it wrote to stdout."""
    isolate(monkeypatch, tmp_path)
    for name, value in {"TERM": "xterm", "NO_COLOR": "1", "DUETIME_TIMEZONE": "Europe/Berlin"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DUETIME_DESKTOP_NOTIFICATIONS", "off")
    monkeypatch.setenv("DUETIME_POOLS", json.dumps({"gpu": {"kind": "slots", "capacity": 1}}))
    numbers = count(FIRST_ID_SEED, 0x1234567)
    monkeypatch.setattr("duetime.scheduler.ids.secrets.randbits", lambda _bits: next(numbers))

    def answered(*arguments: str, code: int = 0) -> str:
        capsys.readouterr()
        assert run(arguments) == code
        written = capsys.readouterr()
        return STYLE.sub("", written.out) if code == 0 else written.err

    return answered


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    return Screen(monkeypatch)


def at(minute: int) -> time_machine.travel:
    return time_machine.travel(NOW + timedelta(minutes=minute), tick=False)


def made(said: Said, *titles: str) -> list[str]:
    return [
        json.loads(said("schedule", title, "--when", "in 3 days", "--label", "work", "--json"))["id"]
        for title in titles
    ]


def work_before(url: str) -> None:
    """Make a webhook that was called, and answered with 404, an hour before."""
    clock = Clock(NOW - timedelta(hours=1))
    store = open_store(url, clock=clock)
    planner = Planner(Handlers.load(entry_points=False), "Europe/Berlin")
    Scheduler(store, planner).schedule("Send orders", when=clock.at, action="webhook", payload=HOOK)
    ready = [Start(each.run_id) for each in store.claims.make_ready(limit=1)]
    (claim,) = store.claims.start(ready, worker="w", epoch=None, lease=timedelta(minutes=1))
    failed = Failed("POST example.com answered 404 Not Found", ANSWER)
    store.claims.settle([settle(claim, failed, now=clock.at, jitter=0.0)])
    store.close()


def session(said: Said, screen: Screen, width: int) -> str:
    lines = []
    for minute, command in enumerate(COMMANDS):
        screen.columns(width)
        with at(minute):
            shown = said(*shlex.split(command)[1:]).splitlines()
            lines += [f"$ {command}", *(line.rstrip() for line in shown), ""]
    return f"\n## {width} columns\n\n```text\n" + "\n".join(lines).rstrip("\n") + "\n```\n"


def test_the_page_of_a_session_is_what_a_terminal_shows(
    said: Said, screen: Screen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [INTRODUCTION]
    for width in (80, 60):
        monkeypatch.setenv("DUETIME_DATABASE_URL", f"sqlite:///{tmp_path}/{width}.db")
        with at(-60):
            work_before(f"sqlite:///{tmp_path}/{width}.db")
        parts.append(session(said, screen, width))
        rows = [line for line in parts[-1].splitlines() if line.startswith("t_") and " " in line[:16]]
        assert max(map(len, rows)) <= width
    page = "".join(parts)
    if os.environ.get("WRITE_PAGES"):
        PAGE.write_text(page, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_an_id_is_never_broken(said: Said, screen: Screen, width: int) -> None:
    with at(0):
        found = made(said, "A title that is so long that no terminal has room for it in one line", "Short")
        for verb in ("list", "history"):
            screen.columns(width)
            shown = said(verb)
            assert all(task_id in shown for task_id in found), shown
            assert max(map(len, shown.splitlines())) <= width


def test_the_beginning_of_an_id_and_a_title_that_one_task_has_stand_for_it(said: Said) -> None:
    first, second = made(said, "Call John", "Call Ann")
    assert first in said("show", first[:12])
    assert second in said("show", second[:12])
    assert first in said("show", "call john")
    assert second in said("reschedule", "Call Ann", "--priority", "high")
    assert "created" in said("history", "Call Ann")
    assert "Call John" in said("explain", "Call John")
    assert second in said("cancel", "Call Ann")
    assert second in said("undo", "Call Ann")


def test_a_title_of_several_tasks_is_refused_with_their_ids(said: Said) -> None:
    found = made(said, "Twin", "Twin")
    refused = said("cancel", "Twin", code=2)
    assert all(task_id in refused for task_id in found)
    assert "a title that only one task has. Example: t_" in refused, "an example that can be typed"
    assert "no task" in said("cancel", "", code=3)
    assert "no task" in said("cancel", "t", code=3), "what all ids begin with stands for none"


def test_the_history_has_the_title_of_each_task(said: Said) -> None:
    made(said, "Call John")
    assert "Call John" in said("history")
    assert json.loads(said("history", "--json"))["events"][0]["title"] == "Call John"


@pytest.fixture
def completed(said: Said, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Completed:
    """Return what bash would offer for the last word of a line."""
    said("--version")

    def offered(words: str) -> list[str]:
        capsys.readouterr()
        with monkeypatch.context() as shell:
            shell.setenv("_DUETIME_COMPLETE", "complete_bash")
            shell.setenv("COMP_WORDS", words)
            shell.setenv("COMP_CWORD", str(words.count(" ")))
            with pytest.raises(SystemExit):
                run([])
        written = capsys.readouterr()
        assert written.err == ""
        return written.out.split()

    return offered


def test_completion_knows_ids_states_actions_labels_and_pools(said: Said, completed: Completed) -> None:
    (task_id,) = made(said, "Call John")
    assert completed("duetime show t_") == [task_id]
    assert completed("duetime cancel x") == []
    assert completed("duetime inbox read t_") == [], "it has no outcome"
    assert completed("duetime list --state su") == ["suspended", "succeeded"]
    assert completed("duetime schedule Title --action w") == ["webhook", "watch"]
    assert completed("duetime list --label ") == ["work"]
    assert completed("duetime schedule Title --need ") == ["gpu="]
    assert completed("duetime pools remove ") == ["gpu"]


@pytest.mark.parametrize("content", [None, "this is no database" * 100])
def test_completion_without_a_database_offers_nothing_and_says_nothing(
    completed: Completed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str | None
) -> None:
    path = tmp_path / "duetime.db"
    if content:
        path.write_text(content, encoding="utf-8")
    assert completed("duetime show t_") == []
    assert path.exists() is bool(content), "completion makes no file"
    monkeypatch.setenv("DUETIME_THREADS", "many")
    assert completed("duetime show t_") == []
