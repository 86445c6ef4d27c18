"""Streamable HTTP as a client, a browser and a supervisor meet it."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from duetime.scheduler.errors import InvalidSetting, StoreUnavailable
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import open_store
from duetime.server.protocol.sdk import lowlevel
from duetime.server.protocol.server import make_server
from duetime.server.protocol.subscriptions import Subscriptions
from duetime.server.transport import dead_sessions
from duetime.server.transport.connections import KEEP_ALIVE_S, UnansweredAtEnd
from duetime.server.transport.dead_sessions import DeadSessions
from duetime.server.transport.http import HttpSite, http_app, listening, url_of
from duetime.server.transport.request_checks import MAX_REQUEST_BODY_BYTES
from duetime.tools.registration import make_tools
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from tests import forked
from tests.flow.protocol.serve_process import ADDRESS, ServerLog

PROGRAM = Path(__file__).with_name("served_process.py")
TIMEOUT_S = 120
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Site:
    """A running server, and a client of it that knows nothing but HTTP."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.log = ServerLog(process.stderr)
        self.url = self.log.address
        self.http = httpx2.Client(timeout=TIMEOUT_S)

    def post(self, body: Any, **headers: str) -> httpx2.Response:
        accepted = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        content = body if isinstance(body, bytes) else None
        return self.http.post(self.url, json=None if content else body, content=content, headers=accepted | headers)

    def modern(self, method: str, **params: object) -> httpx2.Response:
        named = {"Mcp-Name": str(params["name"])} if "name" in params else {}
        headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, **named}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": MODERN, **params}}
        return self.post(body, **headers)

    def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        found = self.modern("tools/call", name=tool, arguments=arguments).json()["result"]
        assert isinstance(found, dict)
        return found


@contextmanager
def serving(folder: Path) -> Iterator[Site]:
    process = forked.popen(
        [sys.executable, str(PROGRAM), "http", f"sqlite:///{folder / 'duetime.db'}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            site = Site(process)
            with site.http:
                yield site
        finally:
            process.kill()
        site.log.rest()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with serving(tmp_path_factory.mktemp("site")) as found:
        yield found


def test_a_client_of_2026_calls_without_a_handshake(site: Site) -> None:
    made = site.call("schedule_task", title="Call John", when="in 2 hours")

    assert made["structuredContent"]["created"] is True


def test_a_client_of_2025_shakes_hands_and_keeps_its_session(site: Site) -> None:
    hello = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    welcome = site.post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
    session = {"Mcp-Session-Id": welcome.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25"}
    site.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, **session)
    call = {"name": "schedule_task", "arguments": {"title": "Call Jane", "when": "in 2 hours"}}
    made = site.post({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}, **session)

    assert "io.modelcontextprotocol/ui" in welcome.json()["result"]["capabilities"]["extensions"]
    assert made.json()["result"]["structuredContent"]["created"] is True


def test_answers_are_single_json_documents(site: Site) -> None:
    assert site.modern("tools/list").headers["content-type"] == "application/json"


OTHER_HOSTS = [
    "evil.example",
    "evil.localhost",
    "evil.localhost:8787",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        *(({"Host": name}, 421) for name in OTHER_HOSTS),
        *(({"Origin": origin}, 403) for origin in ("https://evil.example", "http://evil.localhost", "null")),
    ],
    ids=str,
)
def test_a_web_page_cannot_reach_the_server_through_a_name_of_its_own(
    site: Site, headers: dict[str, str], status: int
) -> None:
    assert site.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, **headers).status_code == status


def test_a_body_beyond_the_limit_is_refused(site: Site) -> None:
    assert site.post(b'{"x": "' + b"y" * MAX_REQUEST_BODY_BYTES + b'"}').status_code == 413


@pytest.mark.parametrize("text", [rb"half \ud83d", rb"a\u0000b"])
def test_half_an_emoji_is_refused_by_the_name_of_its_argument(site: Site, text: bytes) -> None:
    body = (
        rb'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{'
        rb'"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},'
        rb'"name":"schedule_task","arguments":{"when":"in 2 hours","title":"' + text + rb'"}}}'
    )
    refused = site.post(
        body, **{"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "schedule_task"}
    )

    assert refused.json()["result"]["content"][0]["text"].startswith("title: it contains the character U+")
    assert site.http.get(site.url.replace("/mcp", "/livez")).text == "ok"


def test_a_supervisor_sees_that_it_lives_and_that_it_is_ready(site: Site) -> None:
    for path in ("/livez", "/readyz"):
        answer = site.http.get(site.url.replace("/mcp", path))
        assert (answer.status_code, answer.text) == (200, "ok")


def test_an_operator_sees_the_backlog_and_the_throughput(site: Site) -> None:
    answer = site.http.get(site.url.replace("/mcp", "/readyz?verbose"))
    state, *lines = answer.text.splitlines()
    assert (answer.status_code, state) == (200, "ok")
    assert lines[-1].startswith("per minute, in the last 1 min, 5 min, 15 min: 0 / 0 / 0 became ready, ")


@pytest.mark.anyio
async def test_it_is_not_ready_while_the_database_does_not_answer(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'duetime.db'}", synchronous="OFF")
    scheduler = Scheduler(store, Planner(Handlers.load(entry_points=False), None))

    def away(*, verbose: bool) -> str:
        raise StoreUnavailable("the database is locked")

    app = http_app(HttpSite(make_server(lambda: scheduler, Subscriptions(lambda: store.history)), away))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1") as client:
        ready = await client.get("/readyz")
        alive = await client.get("/livez")
    store.close()

    assert (ready.status_code, ready.text) == (503, "the database is locked")
    assert alive.status_code == 200


@pytest.mark.anyio
@pytest.mark.parametrize(("path", "kind"), [("/v1/slow", "application/problem+json"), ("/slow", "text/plain")])
async def test_a_request_that_the_end_of_the_server_cuts_off_is_answered_by_repeat_it(
    tmp_path: Path, path: str, kind: str
) -> None:
    store, reached, answers = open_store(f"sqlite:///{tmp_path / 'duetime.db'}"), anyio.Event(), list[httpx2.Response]()
    scheduler = Scheduler(store, Planner(Handlers.load(entry_points=False), None))

    async def slow(_: Request) -> Response:
        reached.set()
        await anyio.sleep_forever()
        raise AssertionError("never")

    def ready(*, verbose: bool) -> str:
        return "ok"

    server = make_server(lambda: scheduler, Subscriptions(lambda: store.history))
    app = http_app(HttpSite(server, ready, routes=[Route(path, slow)]))

    async def ask() -> None:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1") as client:
            answers.append(await client.get(path))

    asked = asyncio.create_task(ask())
    await reached.wait()
    asked.cancel()
    await asked
    store.close()

    [answer] = answers
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert answer.headers["Content-Type"].startswith(kind)
    assert "may still have its effect. Send it again, with the same idempotency key" in answer.text


@pytest.mark.anyio
@pytest.mark.parametrize(("kind", "whole"), [("text/event-stream", True), ("text/csv", False)])
async def test_a_stream_of_events_that_the_end_of_the_server_cuts_off_is_whole_and_a_file_is_not(
    kind: str, *, whole: bool
) -> None:
    reached, sent = anyio.Event(), list[Message]()

    async def stream(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind.encode())]})
        await send({"type": "http.response.body", "body": b"event: open\n\n", "more_body": True})
        reached.set()
        await anyio.sleep_forever()

    async def receive() -> Message:
        raise AssertionError("never")

    async def send(message: Message) -> None:
        sent.append(message)

    served = asyncio.create_task(UnansweredAtEnd(stream)({"type": "http"}, receive, send))
    await reached.wait()
    served.cancel()
    await asyncio.gather(served, return_exceptions=True)
    assert (not sent[-1].get("more_body")) is whole


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_although_a_client_listens(tmp_path: Path, stop: signal.Signals) -> None:
    with serving(tmp_path) as site:
        body = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "subscriptions/listen",
            "params": {"_meta": MODERN, "notifications": {"resourceSubscriptions": ["duetime://inbox"]}},
        }
        headers = {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "subscriptions/listen",
        }
        with site.http.stream("POST", site.url, json=body, headers=headers) as stream:
            lines = stream.iter_lines()
            assert any("acknowledged" in line for line in lines)
            site.process.send_signal(stop)
            last = [line for line in lines if line.startswith("data: {")][-1]

        assert site.process.wait(TIMEOUT_S) == 0
        assert '"level": "error"' not in site.log.rest()

    assert json.loads(last.removeprefix("data: "))["result"]["resultType"] == "complete"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "no-such-host.invalid"])
def test_only_this_machine_is_served(host: str) -> None:
    with pytest.raises(InvalidSetting, match=r"^host: .*Use 127\.0\.0\.1"), listening(host, 0):
        pass


def test_a_taken_port_is_said_to_be_taken() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]

        with pytest.raises(InvalidSetting, match=f"^port: {port} is in use"), listening("127.0.0.1", port):
            pass


def test_any_free_port_can_be_asked_for() -> None:
    with listening("127.0.0.1", 0) as bound:
        assert bound.proto == socket.IPPROTO_TCP  # else asyncio leaves Nagle on, and every answer waits 40 ms
        assert re.fullmatch(r"http://127\.0\.0\.1:[1-9][0-9]*/mcp", url_of(bound))


LEGACY = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


def test_a_session_of_an_earlier_process_is_told_so_once_and_served_without_a_session_then(site: Site) -> None:
    headers = {"MCP-Protocol-Version": "2025-11-25", "Mcp-Session-Id": "0" * 32}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_tasks", "arguments": {}}}
    first = site.post(call, **headers)
    again = site.post(call, **headers)
    other = site.post(call, **{**headers, "Mcp-Session-Id": "1" * 32})

    assert (first.status_code, other.status_code) == (404, 404)
    assert again.status_code == 200
    assert "tasks" in again.json()["result"]["structuredContent"]


def test_a_client_that_starts_over_after_a_dead_session_has_a_session_again(site: Site) -> None:
    headers = {"MCP-Protocol-Version": "2025-11-25"}
    dead = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    assert site.post(dead, **headers, **{"Mcp-Session-Id": "2" * 32}).status_code == 404
    begun = site.post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": LEGACY})
    session = {"Mcp-Session-Id": begun.headers["mcp-session-id"]}
    assert site.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, **headers, **session).status_code == 202

    assert "result" in site.post(dead, **headers, **session).json()


def test_no_schema_is_walked_for_headers_that_repeat_arguments_as_none_asks_for_one(tmp_path: Path) -> None:
    with closing(open_store(f"sqlite:///{tmp_path / 'duetime.db'}", synchronous="OFF")) as store:
        scheduler = Scheduler(store, Planner(Handlers.load(entry_points=False), None))
        schema_of = lowlevel(make_server(lambda: scheduler, Subscriptions(lambda: store.history))).get_tool_input_schema
    tools = make_tools(lambda: scheduler)

    assert schema_of is not None
    assert not any("x-mcp-header" in json.dumps(tool.parameters) for tool in tools)
    assert [schema_of(tool.name) for tool in tools] == [None] * len(tools)


def test_a_server_that_logs_more_than_a_pipe_holds_is_not_held_up_by_a_test() -> None:
    program = f"import sys; print('{ADDRESS}http://here', 'x' * 1_000_000, sep='\\n', file=sys.stderr)"
    with subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True) as process:
        log = ServerLog(process.stderr)
        assert process.wait(TIMEOUT_S) == 0
        assert (log.address, len(log.rest())) == ("http://here", 1_000_001)


def test_connections_stay_open_longer_than_clients_keep_idle_ones() -> None:
    assert KEEP_ALIVE_S >= 60


def test_only_the_latest_dead_sessions_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_sessions, "MAX_DEAD_SESSIONS", 2)
    dead = DeadSessions()

    async def send(_message: Any) -> None: ...

    def scope(name: bytes) -> dict[str, Any]:
        return {"method": "POST", "headers": [(b"mcp-session-id", name)]}

    async def die() -> None:
        for name in (b"a", b"b", b"c"):
            await dead.watching(scope(name), send)({"type": "http.response.start", "status": 404})
        await dead.watching(scope(b"alive"), send)({"type": "http.response.start", "status": 200})

    anyio.run(die)
    assert [dead.names(scope(name)) for name in (b"a", b"b", b"c", b"alive")] == [False, True, True, False]
    assert not dead.names({"method": "GET", "headers": [(b"mcp-session-id", b"c")]})
