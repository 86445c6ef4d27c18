"""Two chats of foreign make, with a cross-site double frame: what a card says there is what the server then says."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from playwright.sync_api import Browser, FrameLocator, Page, expect

from tests.flow.protocol.serve_process import serving
from tests.widgets.browsers import opened
from tests.widgets.tooling import HOST, bundle

pytestmark = pytest.mark.browser

CHATS = ["official", "renderer"]
TIMEOUT_S = 120
MODERN = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


@pytest.fixture(scope="module")
def script() -> str:
    return bundle("remote.js")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("hosts"), "loopback") as url:
        yield url


@pytest.fixture(scope="module")
def site() -> Iterator[int]:
    """Serve the pages of the chats from this machine; gives the port. By its two names it is two sites to a browser."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(HOST))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as pages:
        thread = threading.Thread(target=pages.serve_forever)
        thread.start()
        yield pages.server_port
        pages.shutdown()
        thread.join()


@pytest.fixture
def remote(browser: Browser, script: str, site: int) -> Iterator[Page]:
    """Give a page of the chat's site."""
    with opened(browser, viewport={"width": 700, "height": 1300}, timezone_id="America/Denver") as page:
        page.goto(f"http://localhost:{site}/remote.html")
        page.add_script_tag(content=script)
        yield page


def call(server: str, tool: str, **arguments: Any) -> dict[str, Any]:
    """Ask the server directly, and give its structured answer."""
    params = {"_meta": MODERN, "name": tool, "arguments": arguments}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28"}
    named = {"Mcp-Method": "tools/call", "Mcp-Name": tool}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    answer: dict[str, Any] = httpx2.post(server, json=body, headers={**headers, **named}, timeout=TIMEOUT_S).json()[
        "result"
    ]
    assert not answer.get("isError"), answer
    found: dict[str, Any] = answer["structuredContent"]
    return found


class Remote:
    """One card in one of the chats."""

    def __init__(self, page: Page, chat: str, server: str, **arguments: Any) -> None:
        self.server = server
        sandbox = page.url.replace("localhost", "127.0.0.1").replace("remote.html", "sandbox.html")
        asked = {"chat": chat, "server": server, "sandbox": sandbox, "tool": "schedule_task", "args": arguments}
        self.task_id: str = page.evaluate("asked => open_card(asked)", asked)
        self.card: FrameLocator = page.frame_locator("iframe").frame_locator("iframe")

    def press(self, *names: str) -> None:
        for name in names:
            self.card.get_by_role("button", name=re.compile(f"^{name}")).first.click()

    def truth(self) -> dict[str, Any]:
        return call(self.server, "get_task", task_id=self.task_id)


@pytest.mark.parametrize("chat", CHATS)
def test_each_action_of_a_card_is_what_the_server_then_says(remote: Page, server: str, chat: str) -> None:
    shown = Remote(
        remote,
        chat,
        server,
        title=f"Call John in {chat}",
        when="tomorrow 9am",
        timezone="America/Denver",
        repeat="daily",
    )
    state = shown.card.locator(".state[data-state]")
    expect(state).to_have_text("Scheduled")
    steps: list[tuple[Callable[[], object], str, Callable[[dict[str, Any]], bool]]] = [
        (lambda: shown.press("More", "Pause"), "Paused", lambda task: task.get("paused") is True),
        (lambda: shown.press("More", "Resume"), "Scheduled", lambda task: "paused" not in task),
        (lambda: shown.press("More", "Skip next"), "Scheduled", lambda task: task["revision"] > 3),
        (lambda: renamed(shown), "Scheduled", lambda task: task["title"] == "Call Jane"),
        (lambda: moved(shown), "Scheduled", lambda task: "2 Jan 2030 10:30" in str(task["warnings"])),
        (lambda: shown.press("Cancel"), "Cancelled", lambda task: task["state"] == "cancelled"),
        (lambda: shown.press("Undo"), "Scheduled", lambda task: task["state"] == "scheduled"),
    ]
    for act, word, holds in steps:
        before = shown.truth()["revision"]
        act()
        expect(state).to_have_text(word)
        expect(shown.card.locator("main")).to_have_attribute("aria-busy", "false")
        task = shown.truth()
        assert task["revision"] > before
        assert holds(task), (word, task)
        expect(shown.card.get_by_role("heading")).to_have_text(task["title"])


def renamed(shown: Remote) -> None:
    shown.press("More", "Edit")
    shown.card.get_by_label("Title").fill("Call Jane")
    shown.press("Save")


def moved(shown: Remote) -> None:
    shown.press("Move")
    shown.card.get_by_label("New time").fill("2030-01-02T10:30")
    shown.press("Save")


@pytest.mark.parametrize("chat", CHATS)
def test_a_reminder_fires_under_its_card_and_is_marked_as_done_there(remote: Page, server: str, chat: str) -> None:
    shown = Remote(remote, chat, server, title=f"Stretch in {chat}", when="in 2 seconds", timezone="America/Denver")
    shown.card.get_by_role("button", name="Done", exact=True).click()
    expect(shown.card.get_by_role("button", name="Done", exact=True)).to_have_count(0)
    assert shown.truth()["state"] == "succeeded"
    unread = call(server, "list_tasks", state="succeeded").get("unread", [])
    assert shown.task_id not in {message["task_id"] for message in unread}


@pytest.mark.parametrize("chat", CHATS)
def test_a_server_that_was_restarted_is_a_new_session_not_an_error(remote: Page, tmp_path: Path, chat: str) -> None:
    with serving(tmp_path, "loopback") as server:
        shown = Remote(remote, chat, server, title="Call John", when="tomorrow 9am", timezone="America/Denver")
        expect(shown.card.locator(".state[data-state]")).to_have_text("Scheduled")
    with serving(tmp_path, "loopback", port=urlsplit(server).port or 0) as again:
        assert again == server
        for button, word in (("Pause", "Paused"), ("Resume", "Scheduled")):
            shown.press("More", button)
            expect(shown.card.locator(".state[data-state]")).to_have_text(word)
            expect(shown.card.get_by_role("alert")).to_have_count(0)
            assert shown.truth().get("paused", False) == (word == "Paused")


@pytest.mark.parametrize("chat", CHATS)
def test_an_action_that_met_a_stopped_server_is_made_when_it_is_back(remote: Page, tmp_path: Path, chat: str) -> None:
    with serving(tmp_path, "loopback") as server:
        shown = Remote(remote, chat, server, title="Call John", when="tomorrow 9am", timezone="America/Denver")
        expect(shown.card.locator(".state[data-state]")).to_have_text("Scheduled")
    shown.press("Cancel")
    expect(shown.card.get_by_role("alert")).to_contain_text("Duetime cannot be reached.")
    with serving(tmp_path, "loopback", port=urlsplit(server).port or 0):
        shown.press("Try again")
        expect(shown.card.locator(".state[data-state]")).to_have_text("Cancelled")
        expect(shown.card.get_by_role("alert")).to_have_count(0)
        assert shown.truth()["state"] == "cancelled"
