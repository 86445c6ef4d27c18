"""Refusals of the SDK, before our code is called: short, and without the words of a library, on both wires."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from tests import forked
from tests.flow.protocol.test_http import PROGRAM, TIMEOUT_S, Site, serving

LONG = "9" * 5_000
NO_MESSAGES: dict[str, object] = {
    "an object": {"a": 1},
    "an object of many members": {f"{number:040}": LONG[:40] for number in range(500)},
    "a list": [1, 2, 3],
    "a text": LONG,
    "a number": 5,
    "null": None,
    "a batch": [{"jsonrpc": "2.0", "id": 1, "method": "ping"}],
    "a request of another version": {"jsonrpc": "1.0", "id": 1, "method": "ping"},
    "parameters that are a list": {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": [LONG]},
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with serving(tmp_path_factory.mktemp("site")) as found:
        yield found


def on_stdio(folder: Path, message: object) -> bytes:
    """Return the line that a fresh process answers to a message."""
    command = [sys.executable, str(PROGRAM), "stdio", f"sqlite:///{folder / 'duetime.db'}"]
    line = json.dumps(message).encode() + b"\n"
    with forked.popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE) as process:
        said, _ = process.communicate(line, timeout=TIMEOUT_S)
    return bytes(said)


def request_of_version(version: object, method: str) -> dict[str, Any]:
    meta = {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"protocolVersion": version, "_meta": meta}}


def is_short(answer: bytes) -> dict[str, Any]:
    assert len(answer) < 1024
    for word in (b"pydantic", b"http", b"validation error", b"input_value", LONG[:100].encode()):
        assert word not in answer
    error: dict[str, Any] = json.loads(answer)["error"]
    return error


@pytest.mark.parametrize("body", NO_MESSAGES.values(), ids=NO_MESSAGES)
def test_a_body_that_is_json_and_no_message_is_refused_in_one_sentence(site: Site, body: object) -> None:
    refused = site.post(json.dumps(body).encode())

    assert refused.status_code == 400
    assert is_short(refused.content) == {
        "code": -32600,
        "message": "Not a JSON-RPC 2.0 message: one request, notification or response is expected",
    }


def test_a_line_that_is_json_and_no_message_is_refused_in_the_same_words(site: Site, tmp_path: Path) -> None:
    assert is_short(on_stdio(tmp_path, {"a": LONG})) == is_short(site.post({"a": LONG}).content)


@pytest.mark.parametrize("method", ["initialize", "tools/list", "notifications/x"])
def test_an_absurd_version_is_not_repeated_over_http(site: Site, method: str) -> None:
    body = request_of_version(LONG, method)
    refused = site.post(body, **{"MCP-Protocol-Version": LONG, "Mcp-Method": method})

    error = is_short(refused.content)
    assert error["message"] == "Unsupported protocol version"
    assert error["data"]["supported"]


def test_an_absurd_version_is_not_repeated_on_stdio(tmp_path: Path) -> None:
    error = is_short(on_stdio(tmp_path, request_of_version(LONG, "server/discover")))

    assert error["message"] == "Unsupported protocol version"
    assert error["data"]["supported"]
