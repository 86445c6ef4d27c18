"""Plain calls of tools go past the SDK: their answers are those that the SDK would write."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from duetime.scheduler.errors import TaskNotFound
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.views import TaskView
from duetime.server.protocol.plain_calls import PlainToolCalls
from duetime.server.protocol.server import make_server
from duetime.server.protocol.subscriptions import Subscriptions
from duetime.server.transport.stdio import WireCalls
from duetime.server.transport.stdio_input import Incoming
from duetime.server.transport.stdio_wire import Outgoing, Wire
from duetime.tools.threads import ToolThreads
from mcp.client.client import Client
from mcp.server import MCPServer
from mcp.types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    LOG_LEVEL_META_KEY,
    CallToolResult,
    JSONRPCRequest,
    RequestParamsMeta,
)

from tests.flow.protocol.test_http import Site
from tests.flow.protocol.test_http import serving as http_serving
from tests.flow.protocol.test_stdio import ERAS, MODERN, TIMEOUT_S, Peer, serving
from tests.flow.protocol.test_tasks_extension import found, talk

CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "task": ("get_task", {"task_id": "TASK"}),
    "history": ("get_task", {"task_id": "TASK", "history": True}),
    "list": ("list_tasks", {}),
    "dry run": ("schedule_task", {"title": "Call John", "repeat": "every weekday at 9:00", "dry_run": True}),
    "unknown task": ("get_task", {"task_id": "t_000000000000"}),
    "unknown argument": ("list_tasks", {"colour": "red"}),
    "long refusal": ("list_tasks", {"colour" * 20 + str(number): "red" for number in range(40)}),
}
"""Calls that change nothing."""


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with serving(tmp_path_factory.mktemp("plain"), ERAS[1]) as started:
        yield started


@pytest.fixture(autouse=True)
def without_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be as a process in which nothing keeps spans, whatever other tests have loaded."""
    monkeypatch.delitem(sys.modules, "opentelemetry.sdk.trace", raising=False)


@pytest.fixture
def scheduler(store: Store) -> Scheduler:
    return Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC"))


@pytest.fixture
def server(scheduler: Scheduler, store: Store) -> MCPServer[None]:
    return make_server(lambda: scheduler, Subscriptions(lambda: store.history))


def a_call(tool: str, arguments: object, request_id: int = 1, **members: Any) -> JSONRPCRequest:
    params = {"name": tool, "arguments": arguments, "_meta": MODERN, **members}
    return JSONRPCRequest(jsonrpc="2.0", id=request_id, method="tools/call", params=params)


@pytest.mark.parametrize("case", CALLS)
def test_a_plain_call_is_answered_as_the_sdk_answers_it(
    scheduler: Scheduler, store: Store, server: MCPServer[None], case: str
) -> None:
    task_id = scheduler.schedule("Call John", when="tomorrow at 9am", timezone="Europe/Paris").record.task.id
    tool, named = CALLS[case]
    arguments = {name: task_id if value == "TASK" else value for name, value in named.items()}
    calls = PlainToolCalls(server)
    call = calls.of(a_call(tool, arguments))
    assert call is not None
    plain = json.loads(calls.in_json(call, call.tool.answer_here(call.arguments, call.origin)))["result"]

    async def ask(client: Client) -> CallToolResult:
        return await client.call_tool(tool, arguments, meta=RequestParamsMeta(progress_token="1"))

    assert found(CallToolResult.model_validate(plain)) == found(talk(scheduler, store, ask))


NOT_PLAIN: dict[str, JSONRPCRequest] = {
    "another method": JSONRPCRequest(jsonrpc="2.0", id=1, method="tools/list", params={"_meta": MODERN}),
    "an unknown tool": a_call("make_coffee", {}),
    "a button": a_call("act_on_task", {"task_id": "t_000000000000", "action": "approve"}),
    "a wait": a_call("get_task", {"task_id": "t_000000000000", "wait": "1 s"}),
    "a list of arguments": a_call("list_tasks", ["x"]),
    "another member": a_call("list_tasks", {}, requestState=None),
    "no version": a_call("list_tasks", {}, _meta={}),
    "an unknown version": a_call("list_tasks", {}, _meta={**MODERN, next(iter(MODERN)): "2030-01-01"}),
    "an unreadable token": a_call("list_tasks", {}, _meta={**MODERN, "progressToken": {}}),
    "a client without a version": a_call("list_tasks", {}, _meta={**MODERN, CLIENT_INFO_META_KEY: {"name": "test"}}),
    "capabilities in a list": a_call("list_tasks", {}, _meta={**MODERN, CLIENT_CAPABILITIES_META_KEY: []}),
    "an unknown level of logs": a_call("list_tasks", {}, _meta={**MODERN, LOG_LEVEL_META_KEY: "loud"}),
}


@pytest.mark.parametrize("case", NOT_PLAIN)
def test_every_other_request_is_left_to_the_sdk(server: MCPServer[None], case: str) -> None:
    assert PlainToolCalls(server).of(NOT_PLAIN[case]) is None


def test_on_the_wire_a_task_has_all_that_the_sdk_adds(peer: Peer) -> None:
    peer.ask("server/discover")
    asked = {"title": "Call John", "when": "in 2 hours", "dry_run": True}
    plain = peer.call("schedule_task", **asked)
    read = peer.ask("tools/call", name="schedule_task", arguments=asked, requestState=None)["result"]

    assert plain.keys() == read.keys()
    assert plain["structuredContent"].keys() == read["structuredContent"].keys()
    assert {name: plain[name] for name in ("isError", "resultType", "_meta")} == {
        name: read[name] for name in ("isError", "resultType", "_meta")
    }


WRONG: dict[str, dict[str, Any]] = {
    "arguments in a list": {"arguments": ["x"]},
    "unreadable metadata": {"arguments": {}, "_meta": {**MODERN, "progressToken": {}}},
    "a client without a version": {"arguments": {}, "_meta": {**MODERN, CLIENT_INFO_META_KEY: {"name": "test"}}},
    "unreadable answers": {"arguments": {}, "inputResponses": ["x"]},
}


@pytest.mark.parametrize("case", WRONG)
def test_a_call_that_the_protocol_forbids_is_refused_by_the_sdk(peer: Peer, case: str) -> None:
    assert peer.ask("tools/call", name="list_tasks", **WRONG[case])["error"]["code"] == INVALID_PARAMS


def test_a_client_that_shook_hands_may_not_call_as_one_of_the_present_protocol(tmp_path: Path) -> None:
    with serving(tmp_path, ERAS[0]) as old:
        refused = old.ask("tools/call", name="list_tasks", arguments={}, _meta=MODERN)

    assert refused["error"]["code"] == INVALID_REQUEST


class Pipes:
    """A client of the wire in this process: the server's event loop turns only where a test awaits something."""

    def __init__(self, server: MCPServer[None]) -> None:
        (theirs, self.to_server), (from_server, ours) = os.pipe(), os.pipe()
        self.wire, self.answers = Wire(theirs, ours), os.fdopen(from_server, "rb")
        self.outgoing = Outgoing(self.wire)
        takes = WireCalls(server, self.outgoing).take
        self.incoming = Incoming(self.wire, self.outgoing, drain=0, takes=takes, on_end=lambda: None)

    def write(self, method: str, request_id: int | None, **params: Any) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": {"_meta": MODERN, **params}}
        os.write(self.to_server, json.dumps(message | ({"id": request_id} if request_id else {})).encode() + b"\n")

    def read(self) -> dict[str, Any]:
        return dict(json.loads(self.answers.readline()))

    async def close(self) -> None:
        os.close(self.to_server)
        with pytest.raises(anyio.EndOfStream):
            await self.incoming.receive()
        await self.outgoing.aclose()
        self.outgoing.flush(TIMEOUT_S)
        self.answers.close()
        for descriptor in (self.wire.incoming, self.wire.outgoing):
            os.close(descriptor)


def on_pipes(server: MCPServer[None], talk: Callable[[Pipes], Awaitable[None]]) -> None:
    async def run() -> None:
        pipes = Pipes(server)
        pipes.write("server/discover", 1)
        await pipes.incoming.receive()
        pipes.outgoing.pending.answered(1)  # no SDK is here to answer it
        try:
            await talk(pipes)
        finally:
            await pipes.close()

    asyncio.run(run())


def test_a_call_is_answered_while_the_event_loop_is_busy(server: MCPServer[None]) -> None:
    async def calls(pipes: Pipes) -> None:
        pipes.write("tools/call", 2, name="list_tasks", arguments={})
        assert pipes.read()["result"]["isError"] is False

    on_pipes(server, calls)


def test_a_call_that_its_client_takes_back_is_not_answered(
    server: MCPServer[None], scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go = threading.Event(), threading.Event()
    monkeypatch.setattr("duetime.tools.threads._threads", ToolThreads(1))  # which answers one call after the other
    get = scheduler.get

    def slow(task_id: str, **kwargs: Any) -> TaskView:
        begun.set()
        go.wait(TIMEOUT_S)
        return get(task_id, **kwargs)

    monkeypatch.setattr(scheduler, "get", slow)

    async def calls(pipes: Pipes) -> None:
        pipes.write("tools/call", 2, name="get_task", arguments={"task_id": "t_000000000000"})
        assert begun.wait(TIMEOUT_S)
        pipes.write("notifications/cancelled", None, requestId=2)
        await pipes.incoming.receive()
        go.set()
        pipes.write("tools/call", 3, name="list_tasks", arguments={})
        assert pipes.read()["id"] == 3

    on_pipes(server, calls)


def test_a_call_that_has_not_begun_when_the_grace_of_the_end_is_over_is_not_made(
    server: MCPServer[None], scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go, made = threading.Event(), threading.Event(), []
    threads = ToolThreads(1)
    monkeypatch.setattr("duetime.tools.threads._threads", threads)

    def slow(task_id: str, **_: Any) -> TaskView:
        made.append(task_id)
        begun.set()
        go.wait(TIMEOUT_S)
        raise TaskNotFound(task_id)

    monkeypatch.setattr(scheduler, "get", slow)

    async def calls(pipes: Pipes) -> None:
        pipes.write("tools/call", 2, name="get_task", arguments={"task_id": "t_000000000000"})
        pipes.write("tools/call", 3, name="get_task", arguments={"task_id": "t_000000000001"})
        assert begun.wait(TIMEOUT_S)

    on_pipes(server, calls)
    go.set()
    threads.finish()
    assert made == ["t_000000000000"]


def test_nothing_more_is_kept_for_a_client_that_closed_its_end(server: MCPServer[None]) -> None:
    async def calls(pipes: Pipes) -> None:
        pipes.answers.close()
        pipes.outgoing.put_line(b"1")
        pipes.outgoing.flush(TIMEOUT_S)
        before = len(pipes.outgoing._unwritten)
        pipes.outgoing.put_line(b"2")
        assert len(pipes.outgoing._unwritten) == before

    on_pipes(server, calls)


def test_a_client_that_does_not_read_gets_every_answer_whole_and_in_order_later(server: MCPServer[None]) -> None:
    lines = [str(number).encode() * (4_000 if number % 2 else 50) for number in range(10, 60)]  # more than a pipe holds

    async def calls(pipes: Pipes) -> None:
        for line in lines:
            pipes.outgoing.put_line(line)
        assert [pipes.answers.readline().rstrip() for _ in lines] == lines

    on_pipes(server, calls)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with http_serving(tmp_path_factory.mktemp("site")) as started:
        yield started


PLAIN_HEADERS = {"MCP-Protocol-Version": ERAS[1], "Mcp-Method": "tools/call", "Mcp-Name": "list_tasks"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Mcp-Name": "get_task"}, 400),
        ({"MCP-Protocol-Version": "2030-01-01"}, 400),
        ({"Mcp-Method": "tools/list"}, 400),
        ({"Accept": "text/html"}, 406),
        ({"Content-Type": "text/plain"}, 400),
        ({"Host": "evil.example"}, 421),
        ({"Origin": "https://evil.example"}, 403),
    ],
    ids=str,
)
@pytest.mark.parametrize("more", [{}, {"requestState": None}], ids=["plain", "read by the SDK"])
def test_over_http_a_plain_call_needs_the_headers_that_the_sdk_wants(
    site: Site, headers: dict[str, str], status: int, more: dict[str, Any]
) -> None:
    params = {"name": "list_tasks", "arguments": {}, "_meta": MODERN, **more}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}

    assert site.post(body, **{**PLAIN_HEADERS, **headers}).status_code == status


def test_over_http_a_call_that_names_its_tool_twice_is_refused(site: Site) -> None:
    params = {"name": "list_tasks", "arguments": {}, "_meta": MODERN}
    twice = [*PLAIN_HEADERS.items(), ("Mcp-Name", "list_tasks"), ("Accept", "application/json")]
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}

    assert site.http.post(site.url, json=body, headers=twice).json()["error"]["code"] == HEADER_MISMATCH
