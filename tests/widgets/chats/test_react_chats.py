"""The React card in chats of the Vercel AI SDK and of CopilotKit: compiled against both, and used in a browser."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.principal import Principal
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskFilter
from duetime.server.auth.issued_keys import new_key, validity_of
from playwright.sync_api import Browser, Route, expect

from tests.flow.admin.served import served
from tests.widgets import provision
from tests.widgets.browsers import opened
from tests.widgets.react_card import CHATS, ORIGIN, Demo, build
from tests.widgets.tooling import CACHE, ROOT

pytestmark = pytest.mark.browser

ANN = Principal("acme", "ann", frozenset({"tasks"}))
OF_MODELS = {"schedule_task", "list_tasks", "get_task", "reschedule_task", "cancel_task", "change_tasks", "send_event"}
SENT_BY_THE_SDK = {"content_type": "text/event-stream", "headers": {"x-vercel-ai-ui-message-stream": "v1"}}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("chats"), CHATS)


@pytest.fixture(scope="module")
def turn(project: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run a turn of the chat's server over a real Duetime: what it streams, and what a press is answered."""
    with served(f"sqlite:///{tmp_path_factory.mktemp('server')}/duetime.db", auth=("keys",)) as site:
        text, key = new_key(ANN, "chat", site.app.store.now(), validity_of("1 day"))
        site.app.store.api_keys.add(key)
        script = str(project / "dist" / "turn" / "turn.js")
        titles = ("Call John", "Call Jane", "Call Bob")
        said = provision.run([provision.node(CACHE), script, f"{site.url}/mcp", text.text, *titles], project)
        states = {
            each.task.title: each.run.state for each in site.app.store.tasks.page("acme", TaskFilter(), limit=9)[0]
        }
        waiting = dict.fromkeys(titles[1:], State.WAITING)
        assert states == {"Call John": State.SCHEDULED, **waiting}, "the press has approved the first"
    found: dict[str, Any] = json.loads(said)
    return found


def test_a_turn_of_the_ai_sdk_schedules_over_mcp_and_a_press_approves_what_its_model_cannot(
    turn: dict[str, Any],
) -> None:
    assert set(turn["offered"]) == OF_MODELS, "the buttons' tool is the app's alone"
    assert turn["approved"]["structuredContent"]["state"] == "scheduled"


def test_the_reason_of_a_failed_turn_stays_on_the_server(turn: dict[str, Any]) -> None:
    chat, agent = turn["failed"]
    assert '"type":"error","errorText":"An error occurred."' in chat
    assert '{"type":"RUN_ERROR","message":"The answer failed. Try again."}' in agent
    assert "sk-of-the-provider" not in chat + agent


def test_however_a_turn_ends_its_connection_is_closed(turn: dict[str, Any]) -> None:
    assert turn["requests"] > 0
    assert turn["open"] == 0


def test_both_chats_show_the_card_of_a_call_and_pass_its_buttons_on(
    browser: Browser, project: Path, turn: dict[str, Any]
) -> None:
    example = json.loads((ROOT / "docs" / "payloads" / "task.json").read_text("utf-8"))["examples"][0]

    def cancelled(route: Route) -> None:
        [task_id] = re.findall(r"t_\w+", route.request.url)
        route.fulfill(json={**example, "id": task_id, "revision": 9, "state": "cancelled"})

    with opened(browser, viewport={"width": 600, "height": 900}) as page:
        demo = Demo(page, project / "dist")
        demo.open("Chats with the cards of Duetime")
        page.route(f"{ORIGIN}/api/chat", lambda route: route.fulfill(body=turn["stream"], **SENT_BY_THE_SDK))
        page.route(f"{ORIGIN}/v1/tasks/*/cancel", cancelled)
        turns = iter(turn["events"])
        page.route(
            f"{ORIGIN}/api/agent", lambda route: route.fulfill(body=next(turns), content_type="text/event-stream")
        )
        page.get_by_role("button", name="Remind me to call John").click()
        ours, theirs = demo.card("Vercel AI SDK"), demo.card("CopilotKit")
        for count in (1, 2):
            page.get_by_role("button", name="Remind me to call Jane").click()
            for text in ("I schedule it.", "Done."):
                expect(theirs.get_by_text(text, exact=True)).to_have_count(count)
        for chat, title, count in ((ours, "Call John", 1), (theirs, "Call Jane", 1), (theirs, "Call Bob", 2)):
            card = chat.get_by_role("article", name=title)
            expect(card).to_contain_text("May I remind you?")
            expect(card.get_by_role("button", name="Approve")).to_be_visible()
            expect(chat).to_contain_text("Done.")
            card.get_by_role("button", name="Cancel").click()
            expect(chat.get_by_role("status").filter(has_text="Cancelled")).to_have_count(count)
        assert demo.problems == []
