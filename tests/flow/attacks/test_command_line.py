"""Attacks on who reads at a terminal or in a spreadsheet: nothing that others wrote steers either."""

from __future__ import annotations

import csv
import io
import json
import logging
import os
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Failed, Outcome
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.run_records import Start
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import open_store
from duetime.scheduler.task import Json, RetryPolicy
from duetime.server.cli.main import run
from duetime.server.runtime.logs import ForPeople, JsonLines

from tests import blank
from tests.builders import LEASE, NOON, Clock

STEERING = "a\x1b]0;owned\x07b\x1b[2Jc\x9b31md\x9d0;x\x9ce\x7ff\u202eg\u2066h\u200ei\rj\x08k\U000e0041l"
FORMULAS = ("=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\uff1d1", " =1", "=HYPERLINK(0)")
HARMLESS = frozenset("\n\u200d")
VERBS = (
    "list", "list --label bad", "failed", "history", "show {0} --history", "show {1} --history", "explain {2}",
    "inbox", "runs", "runs --count-by action", "dead list", "history {0}", "audit list", "workers", "stats",
)  # fmt: skip


@pytest.fixture
def ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Store what a hostile caller and a hostile handler can write; return the tasks."""
    for name in [name for name in os.environ if name.upper().startswith("DUETIME_")]:
        monkeypatch.delenv(name)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    blank.make(tmp_path / "duetime.db")
    monkeypatch.setenv("DUETIME_DATABASE_URL", f"sqlite:///{tmp_path}/duetime.db")
    clock = Clock(NOON)
    store = open_store(f"sqlite:///{tmp_path}/duetime.db", clock=clock)
    scheduler = Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC"))
    hook: dict[str, Json] = {"url": "https://example.com/hook", "body": {STEERING: [STEERING]}}
    made = [scheduler.schedule("fails", when=NOON, action="webhook", payload=hook, retry=RetryPolicy(max_attempts=1))]
    made += [
        scheduler.schedule(title, when=NOON, payload={"message": STEERING}) for title in ("is done", *FORMULAS[:1])
    ]
    made += [scheduler.schedule(f"{text.strip()}x", when="in 2 days", labels=["bad"]) for text in FORMULAS]
    ready = [Start(each.run_id) for each in store.claims.make_ready(limit=9)]
    claims = store.claims.start(ready, worker="w", epoch=None, lease=LEASE)
    outcomes: tuple[Outcome, ...] = (
        Failed(STEERING, {"body": STEERING}),
        Done(STEERING, {STEERING: STEERING}),
        Failed(FORMULAS[0]),
    )
    store.claims.settle(
        [settle(claim, outcome, now=clock.at, jitter=0.0) for claim, outcome in zip(claims, outcomes, strict=True)]
    )
    store.close()
    return [each.record.task.id for each in made]


def steering(text: str) -> Iterator[str]:
    """Yield the characters that a terminal acts on, or that disguise a text."""
    return (char for char in text if char not in HARMLESS and unicodedata.category(char) in {"Cc", "Cf", "Cs"})


def test_no_verb_writes_what_steers_a_terminal(ids: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    bad, read = [], []
    for verb in VERBS:
        for style in ((), ("--json",)):
            words = [*verb.format(*ids).split(), *style]
            run(words)
            written = capsys.readouterr()
            read.append(written.out)
            bad += [f"{words}: {char!r}" for char in dict.fromkeys(steering(written.out + written.err))]
    assert bad == []
    assert json.loads(read[9])["payload"]["body"] == {STEERING: [STEERING]}


def test_mistyped_input_steers_no_terminal(ids: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ("show", STEERING), ("cancel", STEERING), (STEERING,), ("list", f"--{STEERING}"), ("list", "--state", STEERING),
        ("schedule", STEERING, "--when", STEERING), ("schedule", "x", "--when", "now", "--action", STEERING),
        ("import", STEERING), ("runs", "--since", STEERING), ("keys", "create", STEERING, "--user", STEERING),
        ("policy", "set", STEERING), ("secrets", "remove", STEERING), ("pools", "set", STEERING),
    ):  # fmt: skip
        assert run(words) != 0, words
        written = capsys.readouterr()
        assert list(steering(written.out + written.err)) == [], words


def test_no_cell_of_csv_is_a_formula(ids: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("list", "failed", "runs", "inbox list", "dead list"):
        run([*verb.split(), "--csv"])
        cells = [cell for row in csv.reader(io.StringIO(capsys.readouterr().out)) for cell in row]
        assert len(cells) > 5
        assert [cell for cell in cells if cell.lstrip()[:1] in {"=", "+", "-", "@", "\uff1d"} or cell[:1] == "\t"] == []


@pytest.mark.parametrize("style", [ForPeople, JsonLines])
def test_no_text_passes_for_another_line_of_the_log(style: type[logging.Formatter]) -> None:
    """Neither in a message nor in the exception behind it."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(style())
    for forged in ("10:00:00 1 info duetime: all well", '{"level": "info", "message": "all well"}'):
        text = f"{STEERING}\n{forged}\r\n{forged}\r{forged}\u2028{forged}"
        raised = (ValueError, ValueError(text), None)
        handler.handle(logging.LogRecord("duetime.x", logging.ERROR, "", 1, "it failed: %s", (text,), raised))
        assert forged not in stream.getvalue().splitlines()
    assert list(steering(stream.getvalue())) == []
    entries = [line for line in stream.getvalue().splitlines() if not line.startswith("    ")]
    assert len(entries) == 2
