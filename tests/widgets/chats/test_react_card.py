"""The React card of the examples, in a real browser, over the published examples and over a real server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from duetime.widgets.vocabulary import STATE_LABELS
from playwright.sync_api import Browser, Route, expect

from tests.flow.admin.served import Served, served
from tests.widgets.browsers import opened
from tests.widgets.react_card import ORIGIN, Demo, build, run
from tests.widgets.tooling import ROOT

pytestmark = pytest.mark.browser

NOW = "2026-11-23T15:00:00Z"
PAYLOADS = ROOT / "docs" / "payloads"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("react"))


@pytest.fixture
def options() -> dict[str, Any]:
    """Options of the window, which a test may replace."""
    return {}


@pytest.fixture
def demo(browser: Browser, project: Path, options: dict[str, Any]) -> Iterator[Demo]:
    """Open the demo an hour and a day before its tasks are due; what is on its console fails the test."""
    given = {"viewport": {"width": 600, "height": 900}, "timezone_id": "America/Denver", **options}
    with opened(browser, **given) as page:
        page.clock.set_fixed_time(NOW)
        found = Demo(page, project / "dist")
        found.open()
        yield found
        assert found.problems == []


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    with served(f"sqlite:///{tmp_path}/duetime.db") as found:
        yield found


@pytest.fixture
def live(browser: Browser, project: Path, server: Served) -> Iterator[Demo]:
    """Open the demo over a server with one task, as behind the proxy of a chat."""

    def forward(route: Route) -> None:
        path = route.request.url.removeprefix(ORIGIN)
        answer = route.fetch(url=f"{server.url}{path}", headers={**route.request.headers, "origin": server.url})
        route.fulfill(response=answer)

    with opened(browser, viewport={"width": 600, "height": 900}) as page:
        page.request.post(f"{server.url}/v1/tasks", data={"title": "Call John", "when": "in 30 minutes"})
        found = Demo(page, project / "dist")
        found.open()
        page.route(f"{ORIGIN}/v1/**", forward)
        page.reload()
        yield found


def test_the_types_admit_the_published_examples_and_no_unknown_state(project: Path) -> None:
    lines = ['import type { Chain, Task, TaskPage } from "../src/payloads";']
    for name, kind in (("task", "Task"), ("list", "TaskPage"), ("chain", "Chain")):
        examples = json.loads((PAYLOADS / f"{name}.json").read_text("utf-8"))["examples"]
        lines.append(f"export const {name}s: {kind}[] = {json.dumps(examples)};")
    lines += ["// @ts-expect-error - there is no such state", 'export const wrong: Task["state"] = "postponed";']
    (project / "demo" / "examples.ts").write_text("\n".join(lines), "utf-8")
    run("check", project)


def test_the_card_has_the_words_of_the_vocabulary_for_how_a_task_stands() -> None:
    written = (ROOT / "examples" / "react-card" / "src" / "words.ts").read_text("utf-8")
    assert dict(re.findall(r'^  (\w+): \["([^"]+)", "\w+", "."\],$', written, re.MULTILINE)) == STATE_LABELS


def test_an_example_is_shown_with_its_state_time_and_facts(demo: Demo) -> None:
    first, second = demo.card("Task 1"), demo.card("Task 2")
    expect(first.get_by_role("article", name="Call John")).to_be_visible()
    expect(first.get_by_role("status")).to_contain_text("Scheduled")
    expect(first.locator("time")).to_have_text("Tue, Nov 24, 9:00 AM")
    expect(first).to_contain_text("tomorrow")
    for fact in ("Trying again", "high", "every day at 09:00", "2 of 10", "POST example.com answered 500"):
        expect(second).to_contain_text(fact)


KINDS = (
    ("AI SDK, called", "Scheduling…"),
    ("AI SDK, answered", "Call John"),
    ("AI SDK, failed", "The tool timed out."),
    ("CopilotKit, answered", "Call John"),
    ("Refused", "'25:00' is no time of day"),
    ("Damaged", "can only be cancelled"),
    ("Overdue", "Overdue"),
    ("Dry run", "Dry run"),
    ("Running", "400 of 1,000 rows"),
    ("Extra run", "Ready"),
    ("Extra run", "in 10 minutes"),
    ("Extra run", "every day at 09:00, next Tue, Nov 24, 9:00 AM"),
    ("Extra run", "Skip next: Tue, Nov 24, 9:00 AM"),
    ("Extra run", "Cancel: every day at 09:00"),
    ("Unknown state", "postponed"),
    ("List 1", "2 scheduled"),
    ("List 1", "secret 'crm': there is none of this name"),
    ("Task 3", "It waits until this is there: secret 'crm'"),
    ("Task 4", "Pay the invoice of Acme over 90 EUR?"),
    ("Task 4", "Ends in 2 hours, then does not run"),
    ("Empty list", "No tasks"),
    ("Unreadable", "cannot be shown"),
)
"""Sections of the demo, each with words in it."""


def test_each_kind_of_answer_is_said_in_words(demo: Demo) -> None:
    for name, words in KINDS:
        expect(demo.card(name), name).to_contain_text(words)


def test_a_chain_shows_its_progress_and_each_step_with_its_state_and_why_one_failed(demo: Demo) -> None:
    card = demo.card("Chain 1").get_by_role("article", name="Weekly report")
    expect(card).to_contain_text("1 of 4 steps done")
    expect(card.get_by_role("progressbar", name="Steps done")).to_have_js_property("value", 1)
    steps = ["fetch.*Succeeded", "clean.*Failed.*answered 404", "load.*Running", "report.*Waiting"]
    expect(card.get_by_role("listitem")).to_have_text([re.compile(said) for said in steps])
    expect(card.get_by_role("button")).to_have_text(["Pause", "Cancel"])


@pytest.mark.parametrize(("name", "task_id"), [("Task 4", "t_3n8w1yt6r0vg"), ("Chain 2", "c_9d4v0bz8s5pk")])
def test_a_task_that_waits_for_approval_is_answered_with_a_press(demo: Demo, name: str, task_id: str) -> None:
    kind, at = name.lower().split()
    task = json.loads((PAYLOADS / f"{kind}.json").read_text("utf-8"))["examples"][int(at) - 1]
    approved = {**task, "state": "scheduled", "waits": [], "waiting_for": []}
    demo.page.route(f"{ORIGIN}/v1/tasks/{task_id}/approve", lambda route: route.fulfill(json=approved))
    card = demo.card(name)
    expect(card.get_by_role("button")).to_have_text(["Approve", "Reject", "Pause", "Cancel"])
    card.get_by_role("button", name="Approve").press("Enter")
    expect(card.get_by_role("status")).to_contain_text("Scheduled")
    expect(card.get_by_role("button", name="Approve")).to_have_count(0)


def test_a_damaged_task_offers_cancel_alone(demo: Demo) -> None:
    expect(demo.card("Damaged").get_by_role("button")).to_have_text(["Cancel"])


NEAR = {"utc": "2026-11-23T15:30:00Z"}
UNREAD = [{"task_id": "t_7k3m9qx2w4hb", "text": "Call John", "state": "succeeded", "at": NOW}]
BUTTONS: tuple[tuple[dict[str, Any], list[str]], ...] = (
    ({}, ["Run now", "Pause", "Cancel"]),
    ({"when": NEAR}, ["Snooze 10 min", "Run now", "Pause", "Cancel"]),
    ({"when": NEAR, "paused": True}, ["Run now", "Resume", "Cancel"]),
    ({"repeat": {"rule": "FREQ=DAILY", "text": "daily"}}, ["Run now", "Skip next", "Pause", "Cancel"]),
    ({"state": "running"}, ["Pause", "Cancel"]),
    ({"state": "running", "cancel_requested": True}, ["Pause"]),
    ({"state": "succeeded", "unread": UNREAD}, ["Done", "Snooze 10 min"]),
    ({"state": "succeeded", "action": "webhook"}, ["Run again", "Snooze 10 min"]),
    ({"state": "failed"}, ["Run again", "Snooze 10 min"]),
    ({"state": "cancelled"}, []),
    ({"id": "t_dry_run"}, []),
    ({"blocked": True}, ["Run now", "Pause", "Cancel"]),
    ({"repeat": {"rule": "FREQ=DAILY", "text": "every day", "approval": {}}}, ["Skip next", "Pause", "Cancel"]),
)


def test_each_state_has_the_buttons_that_it_allows(demo: Demo) -> None:
    task = json.loads((PAYLOADS / "task.json").read_text("utf-8"))["examples"][0]
    answers = iter([{**task, **parts} for parts, _ in BUTTONS])
    demo.page.route(f"{ORIGIN}/v1/tasks/t_7k3m9qx2w4hb", lambda route: route.fulfill(json=next(answers)))
    row = demo.card("List 1").get_by_role("button", name="Call John", exact=True)
    for _, names in BUTTONS:
        row.click()
        card = demo.card("List 1").get_by_role("article")
        expect(card).to_be_visible()
        expect(card.get_by_role("button")).to_have_text(names)
        row.click()
        expect(card).to_have_count(0)


def test_a_question_says_until_when_it_is_open_and_what_follows_without_an_answer(demo: Demo) -> None:
    task = json.loads((PAYLOADS / "task.json").read_text("utf-8"))["examples"][0]
    wait = {"kind": "approval", "title": "Pay?", "until": "2026-11-23T17:00:00Z"}
    said: dict[str, dict[str, Any]] = {
        "Ends in 2 hours, then goes ahead": {"goes_on": True},
        "Ends in 2 hours, then counts as approved and goes on": {"goes_on": True, "default_answer": "approve"},
        "Ends in 2 hours, then counts as rejected and goes on": {"goes_on": True, "default_answer": "reject"},
    }
    answers = iter([{**task, "state": "waiting", "waits": [{**wait, **parts}]} for parts in said.values()])
    demo.page.route(f"{ORIGIN}/v1/tasks/t_7k3m9qx2w4hb", lambda route: route.fulfill(json=next(answers)))
    row = demo.card("List 1").get_by_role("button", name="Call John", exact=True)
    for words in said:
        row.click()
        expect(demo.card("List 1").get_by_role("article")).to_contain_text(f"Pay?{words}")
        row.click()


def test_user_text_stays_text(demo: Demo) -> None:
    hostile = demo.card("Hostile")
    expect(hostile).to_contain_text("<img src=x onerror=")
    expect(hostile.locator("img, a")).to_have_count(0)
    assert demo.page.title() == "Cards of Duetime in React"


@pytest.mark.parametrize("options", [{"color_scheme": theme} for theme in ("light", "dark")])
def test_everyone_can_use_it_in_light_and_dark(demo: Demo) -> None:
    expect(demo.card("Your tasks")).to_contain_text("No tasks")
    assert demo.violations() == []


@pytest.mark.parametrize("options", [{"viewport": {"width": 320, "height": 700}}])
def test_it_fits_into_320_pixels(demo: Demo) -> None:
    assert demo.overflow <= 0


def test_a_press_sends_the_revision_and_its_answer_is_shown_with_undo(demo: Demo) -> None:
    sent: list[dict[str, Any]] = []
    task = json.loads((PAYLOADS / "task.json").read_text("utf-8"))["examples"][0]
    answers: dict[str, dict[str, Any]] = {
        "cancel": {"state": "cancelled", "revision": 2, "undo": "u_1"},
        "undo": {"revision": 3},
    }

    def answer(route: Route) -> None:
        request, action = route.request, route.request.url.rpartition("/")[2]
        sent.append({"action": action, "if-match": request.headers["if-match"], **json.loads(request.post_data or "")})
        route.fulfill(json={**task, **answers[action]})

    demo.page.route(f"{ORIGIN}/v1/tasks/t_7k3m9qx2w4hb/*", answer)
    card = demo.card("Task 1")
    card.get_by_role("button", name="Cancel").press("Enter")
    expect(card.get_by_role("status")).to_contain_text("Cancelled")
    card.get_by_role("button", name="Undo").press("Enter")
    expect(card.get_by_role("status")).to_contain_text("Scheduled")
    assert sent == [
        {"action": "cancel", "if-match": '"1"'},
        {"action": "undo", "if-match": '"2"', "undo": "u_1"},
    ]


def test_an_undo_is_not_offered_after_its_30_seconds(demo: Demo) -> None:
    task = json.loads((PAYLOADS / "task.json").read_text("utf-8"))["examples"][0]
    late = {**task, "state": "cancelled", "revision": 2, "undo": "u_1", "now": "2026-11-23T14:59:29Z"}
    demo.page.route(f"{ORIGIN}/v1/tasks/t_7k3m9qx2w4hb/cancel", lambda route: route.fulfill(json=late))
    card = demo.card("Task 1")
    card.get_by_role("button", name="Cancel").click()
    expect(card.get_by_role("status")).to_contain_text("Cancelled")
    expect(card.get_by_role("button")).to_have_count(0)


def test_a_press_that_reaches_nobody_says_so_over_the_old_state(demo: Demo) -> None:
    demo.page.route(f"{ORIGIN}/v1/tasks/*/cancel", lambda route: route.abort())
    card = demo.card("Task 1")
    card.get_by_role("button", name="Cancel").click()
    expect(card.get_by_role("alert")).to_have_text("Duetime cannot be reached.")
    expect(card.get_by_role("status")).to_contain_text("Scheduled")
    assert demo.problems.pop().endswith("net::ERR_FAILED")


def test_tasks_of_a_real_server_are_opened_snoozed_and_cancelled_in_place(live: Demo, server: Served) -> None:
    mine = live.card("Your tasks")
    mine.get_by_role("button", name="Call John").click()
    card = mine.get_by_role("article", name="Call John")
    card.get_by_role("button", name="Snooze 10 min").click()
    expect(card.get_by_role("button", name="Undo")).to_be_visible()
    card.get_by_role("button", name="Pause").click()
    expect(card.get_by_role("status")).to_contain_text("Paused")
    card.get_by_role("button", name="Cancel").click()
    expect(card.get_by_role("status")).to_contain_text("Cancelled")
    (run,) = live.page.request.get(f"{server.url}/v1/runs").json()["runs"]
    assert (run["title"], run["state"]) == ("Call John", "cancelled")


def test_a_chain_of_a_real_server_is_approved_in_its_card(live: Demo, server: Served) -> None:
    steps = [{"name": "fetch"}, {"name": "send", "after": ["fetch"]}]
    asked = {"title": "Payroll", "when": "in 30 minutes", "steps": steps, "approval": {"question": "Run the payroll?"}}
    answer = live.page.request.post(f"{server.url}/v1/tasks", data=asked)
    assert answer.ok, answer.text()
    live.page.reload()
    mine = live.card("Your tasks")
    expect(mine.get_by_role("listitem").filter(has_text="Payroll, fetch")).to_have_count(1)
    live.page.goto(f"{ORIGIN}/?task={answer.json()['id']}")
    card = mine.get_by_role("article", name="Payroll")
    card.get_by_role("button", name="Approve").click()
    expect(card.get_by_role("button", name="Approve")).to_have_count(0)
    rows = live.page.request.get(f"{server.url}/v1/tasks").json()["tasks"]
    assert {row["step"]: row["state"] for row in rows if "step" in row} == {"fetch": "scheduled", "send": "waiting"}


def test_the_sentence_of_a_real_refusal_is_shown(live: Demo, server: Served) -> None:
    mine = live.card("Your tasks")
    mine.get_by_role("button", name="Call John").click()
    card = mine.get_by_role("article", name="Call John")
    expect(card).to_be_visible()
    (task,) = live.page.request.get(f"{server.url}/v1/tasks").json()["tasks"]
    live.page.request.patch(f"{server.url}/v1/tasks/{task['id']}", data={"title": "Call Jane"})
    card.get_by_role("button", name="Cancel").click()
    expect(card.get_by_role("alert")).to_contain_text("revision")
