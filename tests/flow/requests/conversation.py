"""Carries out the requests of the page by a client; ids on the page stand for those that answers name."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from hashlib import sha256
from typing import Any, Protocol

from mcp import Client
from mcp.types import CallToolResult, TextContent

from tests.flow.requests.page import ID, ToolCall, UserRequest
from tests.widgets.published import assert_published

Call = Callable[[str, dict[str, Any]], Awaitable[str]]
"""Calls a tool with arguments, and returns the text of its answer."""


class TurnedInstallation(Protocol):
    """An installation whose clock stands still but where it is turned."""

    def turn_by(self, span: timedelta) -> None:
        """Turn the clock, and run what falls due on the way at its time."""

    def run_due(self) -> None:
        """Run what is due, and what that lets go."""


def by_sdk(client: Client) -> Call:
    """Call by a client of the Python SDK."""

    async def call(tool: str, arguments: dict[str, Any]) -> str:
        return text_of(await client.call_tool(tool, arguments))

    return call


def text_of(answer: CallToolResult) -> str:
    """Return the text of an answer that is no refusal and keeps to its published schema."""
    [part] = answer.content
    assert isinstance(part, TextContent)
    assert not answer.is_error, part.text
    assert_published(answer.structured_content)
    return part.text


class Conversation:
    """The calls of one reading of the page, in its order."""

    def __init__(self, call: Call, installation: TurnedInstallation) -> None:
        self._call, self._installation = call, installation
        self._real: dict[str, str] = {}
        self._shown: dict[str, str] = {}

    async def answers(self, request: UserRequest) -> list[tuple[ToolCall, str]]:
        """Return each call of a request with the answer that it gets, in the ids of the page."""
        found = []
        for step in request.steps:
            if isinstance(step, timedelta):
                self._installation.turn_by(step)
            else:
                found.append((step, await self._answer(step)))
        return found

    async def _answer(self, call: ToolCall) -> str:
        given = ID.sub(lambda found: self._real.get(found[0], found[0]), json.dumps(call.arguments))
        text = await self._call(call.tool, json.loads(given))
        self._learn(text, iter(ID.findall(call.answer)))
        self._installation.run_due()
        return ID.sub(lambda found: self._shown.get(found[0], found[0]), text)

    def _learn(self, text: str, on_page: Iterator[str]) -> None:
        """Pair ids that are new with those that stand in their places on the page; make one where there is none."""
        for real in ID.findall(text):
            shown = next(on_page, None)
            if real not in self._shown:
                usable = shown is not None and shown not in self._real and shown[0] == real[0]
                name = shown if usable and shown else _example(real[0], len(self._real), len(real) - 2)
                self._shown[real], self._real[name] = name, real


def _example(kind: str, number: int, length: int) -> str:
    digest = sha256(f"{kind} {number}".encode()).digest()
    return f"{kind}_" + "".join("0123456789abcdefghjkmnpqrstvwxyz"[byte % 32] for byte in digest[:length])
