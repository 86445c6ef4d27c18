"""Pages in a browser and the MCP endpoint: none may call by default, and those of configured origins may."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from duetime.scheduler.errors import InvalidSetting
from duetime.server.settings.model import Settings

from tests.flow.protocol.serve_process import serving

TIMEOUT_S = 120
CHAT = "https://chat.example.com"
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "page", "version": "1"}},
}
WANTED = "content-type,mcp-protocol-version,mcp-session-id,mcp-method,mcp-name,last-event-id,authorization"


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("closed"), "") as url:
        yield url


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("opened"), f"{CHAT},loopback") as url:
        yield url


def preflight(url: str, origin: str, **headers: str) -> httpx2.Response:
    asked = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": WANTED,
        **headers,
    }
    return httpx2.options(url, headers=asked, timeout=TIMEOUT_S)


def post(url: str, origin: str, body: Any = HELLO, **headers: str) -> httpx2.Response:
    accepted = {"Accept": "application/json, text/event-stream", "Origin": origin}
    return httpx2.post(url, json=body, headers=accepted | headers, timeout=TIMEOUT_S)


def read_by_pages(answer: httpx2.Response) -> str | None:
    return answer.headers.get("access-control-allow-origin")


def test_no_page_may_call_by_default(closed: str) -> None:
    for origin in (CHAT, "http://localhost:6274"):
        assert preflight(closed, origin).status_code in {403, 405}
        assert read_by_pages(post(closed, origin)) is None
    assert post(closed, CHAT).status_code == 403


@pytest.mark.parametrize("origin", [CHAT, "http://localhost:6274", "http://127.0.0.1:8080", "https://[::1]:8443"])
def test_a_page_of_an_allowed_origin_may_call(opened: str, origin: str) -> None:
    answer = preflight(opened, origin)

    assert (answer.status_code, read_by_pages(answer)) == (200, origin)
    assert set(WANTED.split(",")) <= set(
        answer.headers["access-control-allow-headers"].lower().replace(" ", "").split(",")
    )
    assert {"GET", "POST", "DELETE"} <= set(answer.headers["access-control-allow-methods"].replace(" ", "").split(","))
    assert "access-control-allow-credentials" not in answer.headers


def test_a_page_reads_its_session_and_goes_on_with_it(opened: str) -> None:
    welcome = post(opened, CHAT)
    session = {"Mcp-Session-Id": welcome.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25"}
    tools = post(opened, CHAT, {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}, **session)

    assert "schedule_task" in {tool["name"] for tool in tools.json()["result"]["tools"]}
    for answer in (welcome, tools):
        assert read_by_pages(answer) == CHAT
        assert {"mcp-session-id", "mcp-protocol-version"} <= set(
            answer.headers["access-control-expose-headers"].lower().split(", ")
        )
        assert "Origin" in answer.headers["vary"]


def test_a_page_can_read_why_it_was_refused(opened: str) -> None:
    refused = post(opened, CHAT, {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}, **{"Mcp-Session-Id": "gone"})
    assert refused.status_code >= 400
    assert read_by_pages(refused) == CHAT


@pytest.mark.parametrize("origin", [
    "https://evil.example", "null", f"{CHAT}.evil.example", "http://chat.example.com", "http://localhost.evil.example",
])  # fmt: skip
def test_a_page_of_another_origin_may_not(opened: str, origin: str) -> None:
    asked, called = preflight(opened, origin), post(opened, origin)
    assert (asked.status_code, read_by_pages(asked)) == (400, None)
    assert (called.status_code, read_by_pages(called)) == (403, None)


def test_another_name_of_this_machine_is_refused_whatever_the_origin(opened: str) -> None:
    assert post(opened, CHAT, Host="evil.example").status_code == 421


def test_a_public_page_may_ask_for_this_machine(opened: str) -> None:
    answer = preflight(opened, CHAT, **{"Access-Control-Request-Private-Network": "true"})
    assert answer.headers["access-control-allow-private-network"] == "true"


def test_only_the_endpoint_is_open_to_pages(opened: str) -> None:
    answer = httpx2.get(opened.replace("/mcp", "/livez"), headers={"Origin": CHAT}, timeout=TIMEOUT_S)
    assert read_by_pages(answer) is None


@pytest.mark.parametrize(
    "text",
    ["*", "https://*.example.com", "chat.example.com", f"{CHAT}/", f"{CHAT}/mcp", "null", "ftp://a", "https://a@b.c"],
)
def test_a_text_that_is_not_an_origin_is_refused(text: str) -> None:
    with pytest.raises(InvalidSetting, match="allowed_origins"):
        Settings(allowed_origins=text)
