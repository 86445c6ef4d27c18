"""Output for programs: JSON that says all that the tables say, and CSV."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.intake.validation import MAX_FILE_PAGE_ROWS
from duetime.scheduler.outcomes import Failed
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.run_records import Start
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import open_store
from duetime.scheduler.store.history import History
from duetime.scheduler.store.run_history.run_history import RunHistory
from duetime.scheduler.task import State
from duetime.server.cli.formats import csv_pages
from duetime.server.cli.formats.task_list import TASK_COLUMNS
from duetime.server.cli.main import run
from duetime.server.cli.past import history, run_table
from duetime.widgets.schema.run_parts import LastRun
from duetime.widgets.schema.task_list import WholeListRow

from tests.builders import LEASE, NOON, Clock, settlement, some, started
from tests.flow.cli.environment import isolate

Say = Callable[..., str]
LONG_TITLE = "Call John about the contract, and ask Jane whether she has seen it"
LONG_REASON = "no such number: " + "it was tried and tried again, " * 5
FORMULA = "=HYPERLINK(0)"
A_TIME = re.compile(r"\d{4}-\d{2}-\d{2}T.*")
RFC_3339 = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(Z|[+-]\d{2}:\d{2})")


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    isolate(monkeypatch, tmp_path)
    monkeypatch.setenv("DUETIME_TIMEZONE", "Europe/Berlin")

    def answered(*arguments: str) -> str:
        capsys.readouterr()
        assert run(arguments) == 0
        return capsys.readouterr().out

    return answered


@pytest.fixture
def tasks(tmp_path: Path) -> dict[str, str]:
    """Make a task that failed and recurs, and one with a formula for a title; return their ids."""
    clock = Clock(NOON)
    store = open_store(f"sqlite:///{tmp_path}/duetime.db", clock=clock)
    scheduler = Scheduler(store, Planner(Handlers.load(entry_points=False), "Europe/Berlin"))
    daily = scheduler.schedule(
        LONG_TITLE,
        when=NOON,
        repeat="every day at 13:00",
        until="2027-03-01",
        labels=("work", "team=blue"),
        deadline="2 hours",
        priority="high",
    )
    ready = [Start(each.run_id) for each in store.claims.make_ready(limit=9)]
    claims = store.claims.start(ready, worker="w", epoch=None, lease=LEASE)
    store.claims.settle([settle(claim, Failed(LONG_REASON), now=clock.at, jitter=0.0) for claim in claims])
    clock.forward(minutes=1)
    formula = scheduler.schedule(FORMULA, when=NOON + timedelta(days=30))
    scheduler.cancel(formula.record.task.id, reason=LONG_REASON)
    store.close()
    return {LONG_TITLE: daily.record.task.id, FORMULA: formula.record.task.id}


def values_in(value: Any) -> Iterator[tuple[str, str]]:
    """Yield each text of a JSON value with the name under which it stands."""
    if isinstance(value, list):
        for part in value:
            yield from values_in(part)
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from ((inner or name, text) for inner, text in values_in(part))
    elif isinstance(value, str):
        yield "", value


def texts(value: Any) -> set[str]:
    return {text for _, text in values_in(value)}


VERBS = [
    ("list",),
    ("failed",),
    ("list", "--before", "2027-02-01"),
    ("show", LONG_TITLE, "--history"),
    ("history",),
    ("history", LONG_TITLE),
    ("explain", LONG_TITLE),
    ("workers",),
    ("schedule", "Stand-up", "--repeat", "every day at 9:00", "--deadline", "2 hours", "--dry-run"),
]
TIMELESS = {("explain", LONG_TITLE), ("workers",)}
"""Verbs whose JSON has no time here."""


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in TIMELESS], ids=lambda verb: " ".join(verb)[:30])
def test_each_time_in_json_has_seconds_and_an_offset(said: Say, tasks: dict[str, str], verb: tuple[str, ...]) -> None:
    found = json.loads(said(*verb, "--json"))
    for name, text in some(each for each in values_in(found) if A_TIME.fullmatch(each[1])):
        assert RFC_3339.fullmatch(text), (name, text)
        datetime.fromisoformat(text)


def test_json_of_a_list_says_what_the_table_says_uncut(said: Say, tasks: dict[str, str]) -> None:
    (row,) = (row for row in json.loads(said("list", "--json"))["tasks"] if row["id"] == tasks[LONG_TITLE])
    assert row["title"] == LONG_TITLE
    assert (row["action"], row["labels"], row["repeat"]) == ("reminder", ["work", "team=blue"], True)
    assert (row["timezone"], row["local"][10:]) == ("Europe/Berlin", "T13:00:00+01:00")
    assert row["relative"] in said("list")
    (failure,) = json.loads(said("failed", "--json"))["tasks"]
    assert failure["last_run"]["summary"] == LONG_REASON
    assert (failure["last_run"]["state"], failure["last_run"]["attempts"]) == ("failed", 1)


def test_json_of_a_history_has_whole_reasons_of_events_and_attempts(said: Say, tasks: dict[str, str]) -> None:
    found = json.loads(said("history", tasks[LONG_TITLE], "--json"))
    assert LONG_REASON in texts(found["events"])
    assert LONG_REASON in texts(found["attempts"])
    assert LONG_REASON in texts(json.loads(said("show", tasks[FORMULA], "--history", "--json")))


def rows(written: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(written)))


def test_csv_of_a_list_has_a_line_for_each_task(said: Say, tasks: dict[str, str]) -> None:
    found = {row["id"]: row for row in rows(said("list", "--csv"))}
    daily = found[tasks[LONG_TITLE]]
    assert (daily["title"], daily["labels"], daily["repeat"]) == (LONG_TITLE, "work; team=blue", "true")
    assert RFC_3339.fullmatch(daily["when"])
    assert (daily["last_state"], found[tasks[FORMULA]]["state"]) == ("failed", "cancelled")
    (failure,) = rows(said("failed", "--csv"))
    assert (failure["last_summary"], failure["last_attempts"]) == (LONG_REASON, "1")


def test_csv_of_a_list_has_each_fact_of_a_row() -> None:
    facts = {*WholeListRow.model_fields} - {"relative", "waits", "last_run"}
    facts |= {f"last_{name}" for name in LastRun.model_fields}
    assert {*TASK_COLUMNS} == facts, "what is there in no other form, or in parts"


def test_csv_of_a_list_says_what_a_run_waits_for(said: Say) -> None:
    said("schedule", "Ship it", "--wait-for", '{"event": "paid", "timeout": "2 hours"}')
    (row,) = rows(said("list", "--query", "Ship it", "--csv"))
    assert row["event"] == "paid"
    assert row["waiting_for"].startswith("the event 'paid', until ")


def test_no_cell_is_a_formula_for_a_spreadsheet(said: Say, tasks: dict[str, str]) -> None:
    written = said("list", "--csv") + said("history", "--csv")
    assert f"'{FORMULA}" in written
    assert not re.search(r"(^|,)\"?\s*[=+@-]", written, re.MULTILINE)


def test_csv_of_a_history_has_who_did_what_when_and_why(said: Say, tasks: dict[str, str]) -> None:
    newest, *_ = rows(said("history", "--csv"))
    assert (newest["kind"], newest["from"], newest["to"]) == ("cancelled", "scheduled", "cancelled")
    assert (newest["task_id"], newest["title"], newest["reason"]) == (tasks[FORMULA], f"'{FORMULA}", LONG_REASON)
    assert (newest["actor"], newest["at"]) == ("local", "2026-11-24T12:01:00Z")


def test_the_next_page_of_csv_is_named_on_stderr(
    said: Say, tasks: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["list", "--limit", "1", "--csv"]) == 0
    written = capsys.readouterr()
    assert "More:" not in written.out
    command = written.err.splitlines()[-1].removeprefix("More: duetime ")
    assert command.endswith(" --csv")
    assert len(rows(said(*command.split()))) == 1


PAST_PAGE_COUNT = 51
"""More rows than a page of any list has by default."""


@pytest.fixture(scope="module")
def file_of_many(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return a database of tasks that failed, each with its run, events and a dead letter, and of audit entries."""
    path = tmp_path_factory.mktemp("many") / "duetime.db"
    store = open_store(f"sqlite:///{path}", synchronous="OFF")
    for number in range(PAST_PAGE_COUNT):
        claim = started(store, store.now(), tenant="local", title=f"Task {number}")
        store.claims.settle([settlement(claim, State.FAILED, error="no such number", dead_letter=True)])
        store.audit.record(AuditEntry("local", AuditKind.SECRET_SET, "ann", subject=f"secret {number}"))
    store.close()
    return path.read_bytes()


@pytest.fixture
def many(tmp_path: Path, file_of_many: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_pages, "CSV_PAGE_ROWS", 20)
    for module in (history, run_table):
        monkeypatch.setattr(module, "MAX_FILE_PAGE_ROWS", 20)
    (tmp_path / "duetime.db").write_bytes(file_of_many)


EACH_LIST = ("list", "failed", "failed --since 1h", "history", "runs", "dead list", "audit list")


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("verb", EACH_LIST)
def test_csv_has_the_rows_of_all_pages(said: Say, capsys: pytest.CaptureFixture[str], verb: str) -> None:
    assert run([*verb.split(), "--csv"]) == 0
    written = capsys.readouterr()
    assert len({json.dumps(row) for row in rows(written.out)}) >= PAST_PAGE_COUNT
    assert "More:" not in written.err
    assert len(rows(said(*verb.split(), "--csv", "--limit", "20"))) == 20, "the page that is asked for"


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize(("verb", "reads"), [("runs", (RunHistory, "page")), ("history", (History, "events"))])
def test_a_file_of_what_happened_is_read_in_larger_pages_than_a_caller_may_ask_for(
    said: Say, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, verb: str, reads: tuple[type, str]
) -> None:
    asked, read = list[int](), getattr(*reads)

    def page(*of: Any, **rest: Any) -> Any:
        asked.append(rest["limit"])
        return read(*of, **rest)

    monkeypatch.setattr(*reads, page)
    for module in (history, run_table):
        monkeypatch.setattr(module, "MAX_FILE_PAGE_ROWS", MAX_FILE_PAGE_ROWS)
    said(verb, "--csv")
    assert asked == [1_000]
    assert run([verb, "--limit", "101"]) != 0
    assert "1 to 100" in capsys.readouterr().err


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("verb", EACH_LIST)
def test_csv_that_is_cut_says_so_and_how_to_get_the_rest(
    said: Say, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    every = rows(said(*verb.split(), "--csv"))
    monkeypatch.setattr(csv_pages, "MAX_CSV_ROWS", 23)
    assert run([*verb.split(), "--csv"]) == 0
    written = capsys.readouterr()
    assert rows(written.out) == every[:23]
    *_, cut, command = written.err.splitlines()
    assert cut == "Cut after 23 rows."
    monkeypatch.setattr(csv_pages, "MAX_CSV_ROWS", 1_000)
    assert rows(said(*shlex.split(command.removeprefix("More: duetime ")))) == every[23:]
