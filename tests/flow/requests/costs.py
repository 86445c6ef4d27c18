"""The cost to a model of the answers on `docs/requests.md`, at four characters a token."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from duetime.scheduler.store import open_store
from duetime.server.protocol.server import make_server
from duetime.server.protocol.subscriptions import Subscriptions
from mcp import Client

from tests.builders import Clock
from tests.flow.requests.conversation import Conversation, text_of
from tests.flow.requests.installation import Installation
from tests.flow.requests.page import PAGE, ToolCall, UserRequest, requests
from tests.flow.requests.start import START

CHARS_PER_TOKEN: Final = 4
KINDS: Final[Mapping[str, Sequence[str]]] = {
    "reminder": ("Remind me", "Every weekday"),
    "list": ("What is on?", "What did I miss?"),
    "result": ("Do it now",),
    "history": ("What did it do?",),
    "wait for a task": ("In this order", "Why is it not running?"),
    "chain": ("In one go",),
    "approval": ("Only when I say yes", "Every week, but ask me each time"),
    "event": ("When it is paid",),
    "watch": ("Tell me when",),
    "bulk": ("What failed, once more", "All of it until Monday"),
}
"""The requests of the page that show a kind of answer."""


@dataclass(frozen=True, slots=True)
class AnswerCost:
    """The tokens of the text and of the structured content of one answer."""

    title: str
    tool: str
    text: float
    structure: float


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading of the page: each call of a request with the answer that it got, and what the answers cost."""

    answers: Sequence[tuple[UserRequest, ToolCall, str]]
    costs: Sequence[AnswerCost]


async def read_page(folder: Path) -> Reading:
    """Make the calls of the page, each of which has to succeed and to answer by its published schema."""
    clock = Clock()
    clock.at = START
    store = open_store(f"sqlite:///{folder}/duetime.db", clock=clock, synchronous="OFF")
    installation = Installation(store, clock)
    server = make_server(lambda: installation.scheduler, Subscriptions(lambda: store.history))
    answers: list[tuple[UserRequest, ToolCall, str]] = []
    costs: list[AnswerCost] = []
    title = ""
    async with Client(server) as client:

        async def call(tool: str, arguments: dict[str, Any]) -> str:
            answer = await client.call_tool(tool, arguments)
            text = text_of(answer)
            costs.append(AnswerCost(title, tool, tokens(text), tokens(answer.structured_content)))
            return text

        conversation = Conversation(call, installation)
        for request in requests(PAGE.read_text("utf-8")):
            title = request.title
            answers += [(request, made, answer) for made, answer in await conversation.answers(request)]
    store.close()
    return Reading(answers, costs)


def tokens(value: object) -> float:
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return len(text) / CHARS_PER_TOKEN


def most_by_kind(found: Sequence[AnswerCost]) -> dict[str, tuple[float, float]]:
    """Return for each kind the tokens of its longest text, and of its longest structured content."""
    of_kind = {kind: [each for each in found if each.title in titles] for kind, titles in KINDS.items()}
    return {
        kind: (max(each.text for each in costs), max(each.structure for each in costs))
        for kind, costs in of_kind.items()
    }
