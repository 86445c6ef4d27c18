"""`duetime inbox`: unread outcomes are listed, read whole, and marked as done."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import time_machine
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Failed, Outcome
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.run_records import Start
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import open_store
from duetime.server.cli.inbox import show_done, show_inbox
from duetime.server.cli.main import run

from tests.builders import LEASE, NOON, Clock, delivery, message, settlement, started
from tests.flow.cli.environment import isolate

Say = Callable[..., str]
REPORT = "312 rows exported\nto reports/november.csv"


@pytest.fixture
def tasks(tmp_path: Path) -> dict[str, str]:
    """Make three tasks that ended, one a minute, and return their ids by title."""
    clock = Clock(NOON)
    store = open_store(f"sqlite:///{tmp_path}/duetime.db", clock=clock)
    scheduler = Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC"))
    made = {}
    outcomes: dict[str, Outcome] = {
        "Export": Done(REPORT),
        "Call John": Done("Call John"),
        "Send it": Failed("no address"),
    }
    for title, outcome in outcomes.items():
        made[title] = scheduler.schedule(title, when=clock.at).record.task.id
        ready = [Start(each.run_id) for each in store.claims.make_ready(limit=9)]
        claims = store.claims.start(ready, worker="w", epoch=None, lease=LEASE)
        store.claims.settle([settle(claim, outcome, now=clock.at, jitter=0.0) for claim in claims])
        clock.forward(minutes=1)
    store.close()
    return made


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    isolate(monkeypatch, tmp_path)

    def answered(*arguments: str, code: int = 0) -> str:
        capsys.readouterr()
        with time_machine.travel(NOON.replace(hour=13), tick=False):
            assert run(["inbox", *arguments]) == code
        written = capsys.readouterr()
        return written.out if code == 0 else written.err

    return answered


def unread(said: Say) -> list[str]:
    return [each["title"] for each in json.loads(said("--json"))["messages"]]


@pytest.mark.parametrize("verb", [(), ("list",)], ids=["inbox", "inbox list"])
def test_unread_outcomes_are_listed_newest_first_and_stay_unread(
    said: Say, tasks: dict[str, str], verb: tuple[str, ...]
) -> None:
    head, *rows, counted = said(*verb).splitlines()
    assert head.split() == ["AT", "(UTC)", "TASK", "TITLE", "STATE", "TEXT"]
    assert [row.split()[5] for row in rows] == [tasks["Send it"], tasks["Call John"], tasks["Export"]]
    assert rows[0].endswith("Send it    failed     no address")
    assert "312 rows exported to reports/november.csv" in rows[2]
    assert counted.startswith("3 unread. ")
    assert unread(said) == ["Send it", "Call John", "Export"]


def test_a_list_is_bounded_and_says_how_many_there_are(said: Say, tasks: dict[str, str]) -> None:
    shown = said("--limit", "1")
    assert "Call John" not in shown
    assert "3 unread, 2 of them older than these." in shown
    found = json.loads(said("--limit", "2", "--json"))
    assert (len(found["messages"]), found["unread_count"]) == (2, 3)
    assert said("--limit", "101", code=2).startswith("duetime: --limit: ")


@pytest.mark.usefixtures("said", "tasks")
def test_csv_that_is_cut_says_how_many_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inbox", "list", "--limit", "1", "--csv"]) == 0
    written = capsys.readouterr()
    assert len(written.out.splitlines()) == 2
    assert "3 unread, 2 of them older than these." in written.err


def test_json_and_csv_have_the_whole_text(said: Say, tasks: dict[str, str]) -> None:
    message = json.loads(said("--json"))["messages"][-1]
    assert message["id"].startswith("m_")
    assert (message["task_id"], message["text"]) == (tasks["Export"], REPORT)
    assert (message["state"], message["at"]) == ("succeeded", "2026-11-24T12:00:00Z")
    (*_, row) = csv.DictReader(io.StringIO(said("--csv")))
    assert row == message


@pytest.mark.parametrize("name", ["id", "the beginning of the id", "title"])
def test_an_outcome_that_is_read_is_shown_whole_and_read_no_more(said: Say, tasks: dict[str, str], name: str) -> None:
    text = {"id": tasks["Export"], "title": "export"}.get(name, tasks["Export"][:9])
    shown = said("read", text).splitlines()
    assert shown == [
        f"2026-11-24 12:00:00  {tasks['Export']}  Export: succeeded",
        "  312 rows exported",
        "  to reports/november.csv",
        "2 unread.",
    ]
    assert unread(said) == ["Send it", "Call John"]
    assert said("read", text) == "2 unread.\n"


def test_all_are_read_where_none_is_named(said: Say, tasks: dict[str, str]) -> None:
    assert said("read", "--json").count('"id"') == 3
    assert said() == said("read") == "Nothing is unread.\n"


def test_outcomes_are_done_by_their_own_ids_by_tasks_or_all(said: Say, tasks: dict[str, str]) -> None:
    newest = json.loads(said("--json"))["messages"][0]
    assert said("done", newest["id"][:20]) == "1 outcome done. 2 unread.\n"
    assert said("done", "call john", newest["id"]) == "1 outcome done. 1 unread.\n"
    assert json.loads(said("done", "--all", "--json")) == {"schema": "duetime.inbox/1", "done": 1, "unread_count": 0}
    assert said("done", "--all") == "0 outcomes done. Nothing is unread.\n"


def test_nothing_is_marked_where_one_of_those_named_is_unknown_or_stands_for_several(
    said: Say, tasks: dict[str, str]
) -> None:
    assert "no task 't_nothing'" in said("done", tasks["Export"], "t_nothing", code=3)
    assert "ID: no outcome 'm_nothing'" in said("done", tasks["Export"], "m_nothing", code=3)
    assert "no outcome" in said("read", "m_nothing", code=3)
    assert "'m_' may be m_" in said("done", tasks["Export"], "m_", code=2)
    assert "name outcomes, or say --all. " in said("done", code=2)
    assert "name outcomes or say --all, not both" in said("done", "--all", tasks["Export"], code=2)
    assert unread(said) == ["Send it", "Call John", "Export"]


def test_messages_held_by_quiet_hours_are_counted_and_named_with_their_end(
    said: Say, tasks: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    end = NOON.replace(hour=14)
    store = open_store(f"sqlite:///{tmp_path}/duetime.db", clock=Clock(NOON))
    claim = started(store, title="Backup", owner="local", tenant="local")
    sent = delivery(claim, next_at=NOON)
    store.claims.settle([settlement(claim, inbox=message(claim), deliveries=(sent,))])
    store.deliveries.postpone({sent.id: end})
    store.close()
    found = json.loads(said("--json"))

    assert tasks.keys() < {each["title"] for each in found["messages"]}
    assert (found["held_count"], found["held_until"]) == (1, "2026-11-24T14:00:00Z")
    held = {each["title"]: each.get("held_until") for each in found["messages"]}
    assert (held["Backup"], held["Export"]) == ("2026-11-24T14:00:00Z", None)
    with time_machine.travel(NOON.replace(hour=13), tick=False):
        assert run(["inbox"]) == 0
    assert "1 delivery held until Tue 24 Nov 2026 14:00 (quiet hours)." in " ".join(capsys.readouterr().err.split())


def test_more_outcomes_than_are_counted_are_at_least_so_many(capsys: pytest.CaptureFixture[str]) -> None:
    one = {"at": NOON.isoformat(), "task_id": "t_1", "title": "Call", "state": "succeeded", "text": "Called"}
    found = {"messages": [one], "unread_count": 1_000}
    show_inbox(found, "UTC", NOON, as_json=False, as_csv=False)
    show_done({"done": 1_200, "unread_count": 1_000}, as_json=False)
    written = capsys.readouterr().out
    assert "1000+ unread, 999+ of them older than these." in written
    assert "1200 outcomes done. 1000+ unread." in written
