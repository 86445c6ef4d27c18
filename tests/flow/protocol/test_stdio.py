"""The raw wire of stdio, in both protocol eras: what a client really receives, line by line."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from duetime.server.transport import stdio_input, stdio_wire
from mcp.types import JSONRPCRequest

from tests import forked

PROGRAM = Path(__file__).with_name("served_process.py")
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}
ERAS = ("2025-11-25", "2026-07-28")
TIMEOUT_S = 120


class Peer:
    """A client that knows nothing but lines of JSON."""

    def __init__(self, process: subprocess.Popen[bytes], era: str) -> None:
        self.process = process
        self.modern = era == ERAS[1]
        self.notices: list[dict[str, Any]] = []
        if not self.modern:
            hello = {"protocolVersion": era, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
            self.welcome = self.ask("initialize", **hello)["result"]
            self.write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def write(self, message: object) -> None:
        self.write_line(json.dumps(message).encode())

    def write_line(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        found = json.loads(self.process.stdout.readline())
        assert isinstance(found, dict)
        return found

    def answer_to(self, request_id: object) -> dict[str, Any]:
        while (message := self.read()).get("id") != request_id or "method" in message:
            self.notices.append(message)
        return message

    def request(self, method: str, request_id: object = 1, **params: object) -> dict[str, Any]:
        meta: dict[str, object] = {"_meta": MODERN} if self.modern else {}
        return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": {**meta, **params}}

    def ask(self, method: str, request_id: object = 1, **params: object) -> dict[str, Any]:
        self.write(self.request(method, request_id, **params))
        return self.answer_to(request_id)

    def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        found = self.ask("tools/call", name=tool, arguments=arguments)["result"]
        assert isinstance(found, dict)
        return found

    def end(self) -> tuple[int, str, str]:
        out, errors = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode, out.decode(), errors.decode()


@contextmanager
def serving(tmp_path: Path, era: str) -> Iterator[Peer]:
    process = forked.popen(
        [sys.executable, str(PROGRAM), "stdio", f"sqlite:///{tmp_path / 'duetime.db'}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield Peer(process, era)
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()


@pytest.fixture(scope="module", params=ERAS)
def peer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """One process for all tests that leave it alive."""
    with serving(tmp_path_factory.mktemp("wire"), request.param) as found:
        yield found


@pytest.fixture(params=ERAS)
def mortal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Peer]:
    """Start a process for a test that ends it."""
    with serving(tmp_path, request.param) as found:
        yield found


@pytest.mark.parametrize("request_id", [None, 1.5, True, {}], ids=str)
def test_a_request_whose_id_is_none_is_refused_and_not_left_unanswered(peer: Peer, request_id: object) -> None:
    peer.notices.clear()
    peer.write(peer.request("tools/list", request_id))

    assert peer.ask("tools/list", 7)["result"]["tools"]
    assert [notice["error"]["code"] for notice in peer.notices] == [-32600]


def test_both_eras_hear_of_the_cards_and_of_subscriptions(tmp_path: Path) -> None:
    with serving(tmp_path, ERAS[0]) as old:
        handshake = old.welcome
    with serving(tmp_path, ERAS[1]) as new:
        discovered = new.ask("server/discover")["result"]

    for said in (handshake, discovered):
        assert "io.modelcontextprotocol/ui" in said["capabilities"]["extensions"]
        assert said["capabilities"]["resources"]["subscribe"] is True
        assert said["instructions"].startswith("Duetime keeps reminders")
    assert handshake["serverInfo"]["name"] == "duetime"
    assert handshake["serverInfo"]["version"]


def test_tools_are_listed_with_everything_that_hosts_look_for(peer: Peer) -> None:
    listed = peer.ask("tools/list")["result"]

    assert [tool["name"] for tool in listed["tools"]][:5] == [
        "schedule_task",
        "list_tasks",
        "get_task",
        "reschedule_task",
        "cancel_task",
    ]
    schedule, buttons = listed["tools"][0], listed["tools"][5]
    assert schedule["inputSchema"]["additionalProperties"] is False
    assert schedule["inputSchema"]["required"] == ["title"]
    assert schedule["_meta"]["ui"] == {
        "resourceUri": "ui://duetime/task-card.html",
        "visibility": ["model", "app"],
    }
    assert schedule["annotations"] == {
        "readOnlyHint": False,
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": True,
    }
    assert buttons["_meta"]["ui"]["visibility"] == ["model", "app"]  # this client declares no cards
    if peer.modern:
        assert (listed["ttlMs"], listed["cacheScope"]) == (300_000, "private")


def test_cards_are_served_as_apps_that_need_no_network(peer: Peer) -> None:
    for name in ("task-card", "task-list"):
        content = peer.ask("resources/read", uri=f"ui://duetime/{name}.html")["result"]["contents"][0]

        assert content["mimeType"] == "text/html;profile=mcp-app"
        assert content["_meta"]["ui"]["csp"]["connectDomains"] == []
        assert content["text"].lstrip().lower().startswith("<!doctype html>")


def test_a_task_is_scheduled_read_and_cancelled(peer: Peer) -> None:
    made = peer.call("schedule_task", title="Call John", when="in 2 hours")
    task_id = made["structuredContent"]["id"]
    read = peer.ask("resources/read", uri=f"duetime://tasks/{task_id}")["result"]["contents"][0]
    gone = peer.call("cancel_task", task_id=task_id)

    assert task_id in made["content"][0]["text"]
    assert json.loads(read["text"])["title"] == "Call John"
    assert gone["structuredContent"]["state"] == "cancelled"


def test_an_unknown_resource_is_an_error_of_the_protocol(peer: Peer) -> None:
    missing = peer.ask("resources/read", uri="duetime://tasks/t_nothing")

    assert missing["error"]["code"] == -32602
    assert "t_nothing" in missing["error"]["message"]


def test_printed_output_stays_off_the_wire(mortal: Peer) -> None:
    made = mortal.call("schedule_task", title="Noise", when="in 2 hours", action="noise", payload={"text": "x"})
    assert "structuredContent" in made, made
    code, out, errors = mortal.end()

    assert code == 0
    assert out == ""
    for printed in (
        "printed while handlers are imported",
        "printed and not flushed",
        "printed and flushed",
        "written to descriptor 1",
        "printed by a child",
    ):
        assert printed in errors


def test_a_defect_costs_one_call_and_is_found_in_the_log_by_its_id(mortal: Peer) -> None:
    failed = mortal.call("get_task", task_id="t_defect")
    after = mortal.call("list_tasks")
    _, _, errors = mortal.end()

    text = failed["content"][0]["text"]
    assert failed["isError"] is True
    assert "\n" not in text
    assert "a detail that nobody" not in text
    number = text.partition("error id ")[2].partition(",")[0]
    logged = [json.loads(line) for line in errors.splitlines() if number in line]
    assert "a detail that nobody outside must see" in logged[0]["traceback"]
    assert after["isError"] is False


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (rb'{"title":"half \ud83d","when":"in 2 hours"}', "title: it contains the character U+D83D"),
        (rb'{"title":"a\u0000b","when":"in 2 hours"}', "title: it contains the character U+0000"),
        (rb'{"title":"x","when":"in 2 hours","max_runs":NaN}', "max_runs: nan is not a whole number"),
        (rb'{"title":"x","when":"in 2 hours","payload":{"message":1e400}}', "payload.message"),
        (rb'{"title":"x","when":"in 2 hours","payload":{"message":"\udfff"}}', "payload.message"),
        (rb'{"title":"x","when":"in 2 hours","\ud800":1}', "no such argument"),
        (b'{"title":"x","when":"in 2 hours","payload":{"n":' + b"9" * 4_000 + b"}}", "payload.n"),
    ],
    ids=["lone surrogate", "NUL", "NaN", "1e400", "surrogate in payload", "surrogate as name", "4000 digits"],
)
def test_characters_that_json_has_and_text_cannot_are_refused_by_name(
    peer: Peer, arguments: bytes, problem: str
) -> None:
    message = json.dumps(peer.request("tools/call", name="schedule_task", arguments="HERE")).encode()
    peer.write_line(message.replace(b'"HERE"', arguments))
    refused = peer.answer_to(1)["result"]

    assert refused["isError"] is True
    assert problem in refused["content"][0]["text"]
    assert len(refused["content"][0]["text"]) < 1_000


def test_lines_that_are_no_messages_are_answered_and_forgotten(peer: Peer) -> None:
    for line in (b"not json", b"[" * 100_000, b'{"jsonrpc": "2.0"}', b'{"id": "\\ud800"}', b"7", b""):
        peer.write_line(line)

    peer.notices.clear()
    assert peer.call("list_tasks")["isError"] is False
    assert [notice["error"]["code"] for notice in peer.notices] == [-32700, -32700, -32600, -32600, -32600]


def test_names_that_cannot_be_sent_back_do_no_harm(peer: Peer) -> None:
    peer.write_line(json.dumps(peer.request("tools/call", name="\ud800", arguments={})).encode())
    unknown = peer.answer_to(1)["result"]
    peer.write_line(json.dumps(peer.request("resources/read", uri="duetime://tasks/\ud800")).encode())
    missing = peer.answer_to(1)["error"]

    assert unknown["content"][0]["text"] == "Unknown tool: ?"
    assert missing["code"] == -32602


def test_calls_under_way_are_answered_when_the_input_ends(tmp_path: Path) -> None:
    with serving(tmp_path, ERAS[1]) as peer:
        for number in range(20):
            call = {"name": "schedule_task", "arguments": {"title": f"Task {number}", "when": "in 2 hours"}}
            peer.write(peer.request("tools/call", number, **call))
        code, out, _ = peer.end()

    answers = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert {answer["id"] for answer in answers} == set(range(20))
    assert all(answer["result"]["structuredContent"]["created"] for answer in answers)


def test_a_listener_is_notified_that_the_server_ends(tmp_path: Path) -> None:
    with serving(tmp_path, ERAS[1]) as peer:
        peer.write(
            peer.request("subscriptions/listen", 7, notifications={"resourceSubscriptions": ["duetime://inbox"]})
        )
        assert peer.read()["method"] == "notifications/subscriptions/acknowledged"
        code, out, _ = peer.end()

    assert code == 0
    assert json.loads(out)["id"] == 7


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_process_while_the_client_keeps_its_pipe_open(mortal: Peer, stop: signal.Signals) -> None:
    mortal.call("list_tasks")
    mortal.process.send_signal(stop)

    assert mortal.process.wait(TIMEOUT_S) == 0


@pytest.mark.parametrize("stop", [signal.SIGTERM, None], ids=["signal", "end of input"])
def test_a_call_that_hangs_does_not_keep_the_process(mortal: Peer, stop: signal.Signals | None) -> None:
    mortal.call("list_tasks")
    mortal.write(mortal.request("tools/call", 2, name="get_task", arguments={"task_id": "t_hanging"}))
    mortal.call("list_tasks")
    if stop is None:
        assert mortal.process.stdin is not None
        mortal.process.stdin.close()
    else:
        mortal.process.send_signal(stop)

    assert mortal.process.wait(TIMEOUT_S) == 0
    assert mortal.process.stderr is not None
    assert b"left behind" not in mortal.process.stderr.read()  # everything else was closed in good order


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_without_waiting_for_answers(mortal: Peer, stop: signal.Signals) -> None:
    mortal.call("list_tasks")
    mortal.write(mortal.request("tools/call", 2, name="get_task", arguments={"task_id": "t_hanging"}))
    mortal.call("list_tasks")
    mortal.process.send_signal(stop)
    assert mortal.process.stderr is not None
    assert any(b"stopping: SIG" in line for line in mortal.process.stderr)
    mortal.process.send_signal(signal.SIGTERM)

    assert mortal.process.wait(TIMEOUT_S) == 0
    assert b"stopping sooner: SIGTERM" in mortal.process.stderr.read()


REQUEST_COUNT = 30


class DeafClient:
    """A client that writes requests and reads no answer yet, and the server's end, with room for few answers."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        lines: int,
        size: int,
        ends: Callable[[], tuple[int, int]] = os.pipe,
    ) -> None:
        monkeypatch.setattr(stdio_wire, "MAX_LINES_UNWRITTEN", lines)
        monkeypatch.setattr(stdio_wire, "MAX_BYTES_UNWRITTEN", size)
        incoming, self.requests = ends()
        self.answers, outgoing = os.pipe()
        wire = stdio_wire.Wire(incoming, outgoing)
        self.outgoing = stdio_wire.Outgoing(wire)
        self.taken_count = 0
        self._loop, self._waits = asyncio.get_running_loop(), asyncio.Event()
        self._wait_for_room = self.outgoing.wait_for_room
        monkeypatch.setattr(self.outgoing, "wait_for_room", self._wait)
        self.incoming = stdio_input.Incoming(wire, self.outgoing, drain=0, takes=self.take, on_end=lambda: None)
        line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": MODERN}})
        os.write(self.requests, f"{line}\n".encode() * REQUEST_COUNT)

    def take(self, _request: JSONRPCRequest) -> bool:
        self.taken_count += 1
        self.outgoing.put_line(b"x" * 100_000)  # more than a pipe holds
        return True

    def read(self) -> None:
        with os.fdopen(self.answers, "rb") as stream:
            for _ in range(REQUEST_COUNT - 1):
                stream.readline()

    def _wait(self, has_ended: Callable[[], bool]) -> None:
        if not self.outgoing.has_room:
            self._loop.call_soon_threadsafe(self._waits.set)
        self._wait_for_room(has_ended)

    async def is_waited_for(self) -> None:
        """Return once the server reads no further, since too many answers wait."""
        await self.incoming.receive()  # the first request is the SDK's
        async with asyncio.timeout(TIMEOUT_S):
            await self._waits.wait()


@pytest.mark.anyio
@pytest.mark.parametrize(("lines", "size"), [(3, 10**9), (10**9, 350_000)], ids=["lines", "bytes"])
async def test_no_more_requests_are_read_while_many_answers_wait_for_a_client_that_reads_none(
    monkeypatch: pytest.MonkeyPatch, lines: int, size: int
) -> None:
    client = DeafClient(monkeypatch, lines, size)
    await client.is_waited_for()
    assert client.taken_count == 4
    await asyncio.to_thread(client.read)
    assert client.taken_count == REQUEST_COUNT - 1
    os.close(client.requests)
    with pytest.raises(anyio.EndOfStream):
        await client.incoming.receive()


def sockets() -> tuple[int, int]:
    """Return the ends of a pair of sockets, which is what Node gives its children as stdin."""
    reader, writer = socket.socketpair()
    return reader.detach(), writer.detach()


def half_close(writer: int) -> None:
    """End the input as Node does: the pair of sockets itself stays open."""
    with socket.socket(fileno=os.dup(writer)) as end:
        end.shutdown(socket.SHUT_WR)


@pytest.mark.anyio
@pytest.mark.parametrize(("ends", "hang_up"), [(os.pipe, os.close), (sockets, half_close)], ids=["pipe", "sockets"])
async def test_a_client_that_reads_no_answer_ends_its_input_all_the_same(
    monkeypatch: pytest.MonkeyPatch, ends: Callable[[], tuple[int, int]], hang_up: Callable[[int], None]
) -> None:
    client = DeafClient(monkeypatch, 3, 10**9, ends)
    await client.is_waited_for()
    hang_up(client.requests)
    with pytest.raises(anyio.EndOfStream):
        async with asyncio.timeout(TIMEOUT_S):
            await client.incoming.receive()
    os.close(client.answers)
