"""`duetime logs`: what the handler of a run logged, and what it logs while the command waits."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from duetime.scheduler.run_records import Claim
from duetime.scheduler.store import open_store
from duetime.server.cli.main import run
from duetime.server.cli.past.logs import LOG_FOLLOW_INTERVAL_S, LogPage, pages

from tests import blank
from tests.builders import Clock, log_chunk, settlement, started

Say = Callable[..., tuple[str, str]]


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    for name in [name for name in os.environ if name.upper().startswith("DUETIME_")]:
        monkeypatch.delenv(name)
    blank.make(tmp_path / "duetime.db")
    monkeypatch.setenv("DUETIME_DATABASE_URL", f"sqlite:///{tmp_path}/duetime.db")
    monkeypatch.setenv("DUETIME_TIMEZONE", "UTC")

    def said(*arguments: str, code: int = 0) -> tuple[str, str]:
        capsys.readouterr()
        assert run(arguments) == code
        written = capsys.readouterr()
        return written.out, written.err

    return said


@pytest.fixture
def claim(tmp_path: Path) -> Claim:
    """Return a run that has ended, with a log."""
    blank.make(tmp_path / "duetime.db")
    store = open_store(f"sqlite:///{tmp_path}/duetime.db", clock=Clock())
    claim = started(store, tenant="local", owner="local", title="Import")
    store.run_logs.write([log_chunk(claim, 1, "begun", "two\nlines", cut=4)])
    store.claims.settle([settlement(claim, log=(log_chunk(claim, 3, "done", last=True),))])
    store.close()
    return claim


def test_the_log_of_a_run_and_of_the_run_of_a_task(say: Say, claim: Claim) -> None:
    lines = [
        "2026-11-24 12:00:00 attempt 1 info shop: begun",
        "2026-11-24 12:00:00 attempt 1 info shop: two",
        "    lines",
        "2026-11-24 12:00:00 attempt 1 info shop: done",
    ]
    for of in (claim.run.id, claim.task.id, "import"):
        out, err = say("logs", of, "--follow")
        assert out.splitlines() == lines
        assert err == "4 older lines were not kept.\n"
    assert say("logs", claim.run.id, "--tail", "1")[0].splitlines() == lines[-1:]
    found = [json.loads(line) for line in say("logs", claim.run.id, "--json")[0].splitlines()]
    assert [line["text"] for line in found] == ["begun", "two\nlines", "done"]
    same = {"task": claim.task.id, "run": claim.run.id, "attempt": 1, "level": "info", "logger": "shop"}
    assert same.items() <= found[2].items()
    assert found[2]["at"] == "2026-11-24T12:00:00Z"
    shown, _ = say("show", claim.task.id)
    assert "2026-11-24 06:00:00 begun\n" in shown
    assert [line["text"] for line in json.loads(say("show", claim.task.id, "--json")[0])["log"]["lines"]][-1] == "done"


def test_a_run_that_logged_nothing_or_is_not_there_says_so(say: Say, tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/duetime.db", clock=Clock())
    silent = started(store, tenant="local", owner="local")
    store.close()
    assert say("logs", silent.run.id) == ("", "Its handler logged nothing.\n")
    for text in ("r_7k3m9qx2w4hb00000000", "nope"):
        assert say("logs", text, code=3)[1] == (
            f"duetime: ID: no run or task '{text}'. `duetime runs` and `duetime list` show their ids.\n"
        )


def test_following_reads_on_behind_the_last_line_until_the_run_has_ended() -> None:
    said: list[tuple[list[str], bool, bool]] = [(["1.1"], True, False), ([], False, False), (["1.2"], False, False)]
    said.append((["2.1"], False, True))
    asked: list[str | None] = []
    pauses: list[float] = []

    def read(after: str | None) -> LogPage:
        places, more, ended = said[len(asked)]
        asked.append(after)
        return {"lines": [{"place": place} for place in places], "more": more, "ended": ended}

    found = list(pages(read, follow=True, pause=pauses.append))
    assert asked == [None, "1.1", "1.1", "1.2"]
    assert (len(found), pauses) == (4, [LOG_FOLLOW_INTERVAL_S] * 2)
    asked.clear()
    assert len(list(pages(read, follow=False, pause=pauses.append))) == 2
