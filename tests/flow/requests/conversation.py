"""Carries out the requests of the page by a client; ids on the page stand for those that answers name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from hashlib import sha256
from typing import Any

from mcp import Client
from mcp.types import TextContent

from tests.flow.requests.installation import Installation
from tests.flow.requests.page import ID, ToolCall, UserRequest


class Conversation:
    """The calls of one reading of the page, in its order."""

    def __init__(self, client: Client, installation: Installation) -> None:
        self._client, self._installation = client, installation
        self._real: dict[str, str] = {}
        self._shown: dict[str, str] = {}

    async def answers(self, request: UserRequest) -> list[tuple[ToolCall, str]]:
        """Return each call of a request with the answer that it gets, in the ids of the page."""
        found = []
        for step in request.steps:
            if isinstance(step, timedelta):
                self._installation.turn(self._installation.clock.at + step)
            else:
                found.append((step, await self._answer(step)))
        return found

    async def _answer(self, call: ToolCall) -> str:
        given = ID.sub(lambda found: self._real.get(found[0], found[0]), json.dumps(call.arguments))
        answer = await self._client.call_tool(call.tool, json.loads(given))
        [part] = answer.content
        assert isinstance(part, TextContent)
        assert not answer.is_error, part.text
        self._learn(part.text, iter(ID.findall(call.answer)), answer.structured_content or {})
        self._installation.run_due()
        return ID.sub(lambda found: self._shown.get(found[0], found[0]), part.text)

    def _learn(self, text: str, on_page: Iterator[str], _content: dict[str, Any]) -> None:
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
