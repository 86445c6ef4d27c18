"""`show` and `list` of work: payload and result, which attempt, and that nobody runs what is overdue."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Failed, Outcome, Retry
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.run_records import Start
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.task import RetryPolicy
from duetime.server.cli.main import run

from tests.builders import LEASE, NOON, Clock
from tests.flow.cli.environment import isolate
from tests.flow.tools.calls import asked_of

Say = Callable[..., str]
HOOK: dict[str, Any] = {
    "url": "https://example.com/hook?token=abc123",
    "headers": {"Authorization": "Bearer abcdefghijkl", "X-Source": "duetime"},
    "body": {"order": 7, "password": "hunter2"},
}
SAID = "no such hook, and much more of it. " * 50


class Work:
    """Tasks that run in the test itself."""

    def __init__(self, path: Path) -> None:
        self.clock = Clock(NOON)
        self.store: Store = open_store(f"sqlite:///{path}", clock=self.clock)
        self.scheduler = Scheduler(self.store, Planner(Handlers.load(entry_points=False), "UTC"))

    def now(self) -> time_machine.travel:
        return time_machine.travel(self.clock.at, tick=False)

    def hook(self, *outcomes: Outcome, **arguments: Any) -> str:
        """Schedule a webhook and let its attempts end with these outcomes."""
        task_id = self.scheduler.schedule(
            "Call the hook", when=NOON, action="webhook", payload=HOOK, retry=RetryPolicy(max_attempts=5), **arguments
        ).record.task.id
        for outcome in outcomes:
            self.attempt(outcome)
        return task_id

    def attempt(self, outcome: Outcome) -> None:
        ready = [Start(each.run_id) for each in self.store.claims.make_ready(limit=9)]
        claims = self.store.claims.start(ready, worker="w", epoch=None, lease=LEASE)
        self.store.claims.settle([settle(claim, outcome, now=self.clock.at, jitter=1.0) for claim in claims])
        self.clock.forward(minutes=2)


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Work]:
    made = Work(tmp_path / "duetime.db")
    yield made
    made.store.close()


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    isolate(monkeypatch, tmp_path)

    def said(*arguments: str) -> str:
        capsys.readouterr()
        assert run(arguments) == 0
        return capsys.readouterr().out

    return said


def answered(status: int) -> dict[str, Any]:
    return {"status": status, "body": SAID}


def test_show_has_the_payload_with_secrets_masked_and_the_start_of_what_a_404_said(work: Work, cli: Say) -> None:
    task_id = work.hook(Failed("POST example.com answered 404 Not Found", answered(404)))
    shown = cli("show", task_id)

    assert re.search(r"^payload +url: https://example.com/hook\?token=\*\*\*$", shown, re.MULTILINE)
    assert re.search(r'^ +headers: \{"Authorization": "\*\*\*", "X-Source": "duetime"\}$', shown, re.MULTILINE)
    assert re.search(r'^ +body: \{"order": 7, "password": "\*\*\*"\}$', shown, re.MULTILINE)
    assert re.search(r"^result +status: 404$", shown, re.MULTILINE)
    assert re.search(r"^ +body: no such hook, and much more of it\. .*…$", shown, re.MULTILINE)
    whole = json.loads(cli("show", task_id, "--json"))
    assert whole["result"] == answered(404)
    assert whole["payload"]["headers"] == {"Authorization": "***", "X-Source": "duetime"}
    for text in (shown, json.dumps(whole), cli("show", task_id, "--history"), cli("history", task_id, "--json")):
        assert "hunter2" not in text
        assert "abcdefghijkl" not in text


def test_get_task_has_payload_and_result_cut_and_masked_in_both_forms(work: Work) -> None:
    task_id = work.hook(Failed("POST example.com answered 404 Not Found", answered(404)))
    text, task = asked_of(work.scheduler)("get_task", task_id=task_id)

    assert task["payload"]["headers"]["Authorization"] == "***"
    assert task["result"]["status"] == 404
    assert task["result"]["body"].startswith("no such hook")
    assert 'Payload «{"url": "https://example.com/hook?token=***"' in text
    assert 'Result «{"status": 404, "body": "no such hook' in text
    assert "hunter2" not in text + json.dumps(task)
    assert len(text) <= 600
    assert len(json.dumps(task, separators=(",", ":"))) <= 1_600


def test_a_change_is_answered_without_what_its_caller_knows(work: Work) -> None:
    _, task = asked_of(work.scheduler)(
        "schedule_task", title="Call the hook", when="in 2 hours", action="webhook", payload=HOOK
    )
    assert not {"payload", "result"} & task.keys()


def test_a_run_that_is_tried_again_says_which_attempt_of_how_many_and_what_the_last_one_gave(
    work: Work, cli: Say
) -> None:
    task_id = work.hook(*[Retry("POST example.com answered 503", None, answered(503))] * 2)
    with work.now():
        shown = cli("show", task_id)
        listed = cli("list")
        row = json.loads(cli("list", "--json"))["tasks"][0]
    text, task = asked_of(work.scheduler)("get_task", task_id=task_id)

    assert re.search(r"^state +retrying, attempt 3 of 5$", shown, re.MULTILINE)
    assert re.search(r"^result +status: 503$", shown, re.MULTILINE)
    assert "retrying, attempt 3 of 5" in listed
    assert (row["attempt"], row["max_attempts"]) == (2, 5)
    assert "Waiting for attempt 3 of 5" in text
    assert (task["attempt"], task["max_attempts"], task["result"]["status"]) == (2, 5, 503)
    assert "trying again, attempt 3 of 5, «Call the hook»" in asked_of(work.scheduler)("list_tasks")[0]


@pytest.mark.parametrize("outcomes", [(), (Retry("no answer"),)], ids=["scheduled", "retrying"])
def test_an_overdue_task_without_a_worker_says_so_wherever_it_is_shown(
    work: Work, cli: Say, outcomes: tuple[Outcome, ...]
) -> None:
    task_id = work.hook(*outcomes)
    work.clock.forward(minutes=30)
    with work.now():
        reasons = json.loads(cli("explain", task_id, "--json"))["waiting_for"]
        shown, listed = cli("show", task_id), cli("list")
        found = json.loads(cli("list", "--json")), json.loads(cli("show", task_id, "--json"))
    text, page = asked_of(work.scheduler)("list_tasks")

    assert reasons[-1].startswith("a process to queue it (it was due Tue 24 Nov 2026")
    assert reasons[-1] in " ".join(shown.split())
    assert f"1 overdue, waiting for {reasons[-1]}." in listed
    assert found[0]["overdue"] == f"1 overdue, waiting for {reasons[-1]}"
    assert found[1]["waiting_for"] == reasons
    assert f"1 overdue, waiting for {reasons[-1]}." in text
    assert page["overdue"] == f"1 overdue, waiting for {reasons[-1]}"


def test_a_run_whose_process_was_killed_says_so_wherever_it_is_shown(work: Work, cli: Say) -> None:
    task_id = work.hook()
    ready = [Start(each.run_id) for each in work.store.claims.make_ready(limit=9)]
    work.store.claims.start(ready, worker="w", epoch=None, lease=LEASE)
    with work.now():
        reasons = json.loads(cli("explain", task_id, "--json"))["waiting_for"]
        shown, listed = cli("show", task_id), cli("list")
        found = json.loads(cli("list", "--json")), json.loads(cli("show", task_id, "--json"))

    gone = "1 is not running any more: its process is gone, so start `duetime serve` or open a chat client"
    assert reasons[0].startswith("a process that runs tasks: the one that ran attempt 1 of 5 is gone, so start")
    assert reasons[0] in " ".join(shown.split())
    assert f"{gone}.\n" in listed
    assert (found[0]["overdue"], found[1]["waiting_for"]) == (gone, reasons)


def test_a_task_that_is_not_due_or_is_paused_is_not_overdue(work: Work, cli: Say) -> None:
    task_id = work.hook()
    work.scheduler.schedule("Later", when=NOON + timedelta(days=9))
    work.scheduler.reschedule(task_id, pause=True)
    work.clock.forward(minutes=30)
    with work.now():
        assert "overdue" not in cli("list") + cli("list", "--json")


def test_a_done_webhook_shows_its_answer(work: Work, cli: Say) -> None:
    task_id = work.hook(Done("POST example.com answered 200 OK", {"status": 200, "body": "ok"}))
    shown = cli("show", task_id)
    assert re.search(r"^result +status: 200\n +body: ok$", shown, re.MULTILINE)


def test_a_payload_in_the_history_is_masked_too(work: Work, cli: Say) -> None:
    task_id = work.hook()
    work.scheduler.reschedule(task_id, payload={"url": "https://a.example/?token=def456"})
    text, task = asked_of(work.scheduler)("get_task", task_id=task_id, history=True)

    for shown in (text, json.dumps(task), cli("history", task_id, "--json"), cli("show", task_id, "--history")):
        assert "https://a.example/?token=***" in shown
        assert "def456" not in shown


def test_show_names_the_conversation_that_asked(work: Work, cli: Say) -> None:
    origin = {"client": "a b", "thread": "7"}
    task_id = work.scheduler.schedule("Call", when="in 2 hours", origin=origin).record.task.id
    made = json.loads(cli("schedule", "Call", "--when", "in 2 hours", "--origin", json.dumps(origin), "--json"))
    assert re.search(r"^origin +a b, thread 7$", cli("show", task_id), re.MULTILINE)
    assert json.loads(cli("show", made["id"], "--json"))["origin"] == origin


def test_outcomes_go_back_to_the_conversation_that_a_reschedule_names(
    work: Work, cli: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUETIME_ORIGINS", '{"b": {"command": ["true"]}}')
    task_id = work.scheduler.schedule("Call", when="in 2 hours", origin={"client": "a"}).record.task.id
    origin = {"client": "b", "thread": "8"}
    cli("reschedule", task_id, "--deliver-to", "origin", "--origin", json.dumps(origin))
    assert json.loads(cli("show", task_id, "--json"))["origin"] == origin


def test_show_has_the_template_of_the_keys_and_the_key_of_the_run(work: Work, cli: Say) -> None:
    given = ("--repeat", "every day at 9:00", "--label", "account:acme", "--key", "{tenant}:{label.account}:{window}")
    task_id = json.loads(cli("schedule", "Invoice", *given, "--json"))["id"]
    shown = cli("show", task_id)
    assert re.search(r"^key +\{tenant\}:\{label\.account\}:\{window\}$", shown, re.MULTILINE)
    assert re.search(r"^key of run +local:acme:\d{4}-\d\d-\d\dT\d\d:\d\dZ$", shown, re.MULTILINE)
    assert json.loads(cli("schedule", "Invoice", *given, "--json"))["created"] is False
    plain = json.loads(cli("schedule", "Call", "--when", "in 2 hours", "--key", "plain", "--json"))
    assert "idempotency_key" not in plain


def test_a_run_next_to_its_series_is_what_a_task_shows_first(work: Work, cli: Say) -> None:
    task_id = work.scheduler.schedule("Water", repeat="every day at 23:00").record.task.id
    work.scheduler.act(task_id, "run_now")
    with work.now():
        shown, listed = cli("show", task_id), cli("list")
    at = f"{NOON:%a} {NOON.day} {NOON:%b %Y}"
    assert re.search(rf"^when +{at} 12:00 UTC \(now\)$", shown, re.MULTILINE), shown
    assert re.search(rf"^its series +scheduled, {at} 23:00 UTC \(in 11 h\)$", shown, re.MULTILINE), shown
    assert f"{at} 12:00" in listed


def test_the_list_says_why_a_task_failed_and_when_it_is_tried_again(work: Work, cli: Say) -> None:
    work.hook(Retry("example.com answered 503", after=timedelta(minutes=10)))
    with work.now():
        said = " ".join(cli("list").split())
        [row] = json.loads(cli("list", "--json"))["tasks"]
    assert f"tries again {row['relative']}: example.com answered 503" in said
    assert row["error"] == "example.com answered 503"
    work.clock.forward(hours=1)
    work.attempt(Failed("example.com answered 404"))
    with work.now():
        assert re.search(r" failed +Call the hook +example\.com answered 404 ", cli("list"))
