"""A client gets the answers that `docs/requests.md` shows: every call of it is made, every answer compared."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from duetime.scheduler.store import Store, open_store
from duetime.server.protocol.server import make_server
from duetime.server.protocol.subscriptions import Subscriptions
from mcp import Client

from tests.builders import Clock, some
from tests.flow.requests.conversation import Conversation, by_sdk
from tests.flow.requests.installation import Installation
from tests.flow.requests.page import PAGE, requests
from tests.flow.requests.start import START

pytestmark = pytest.mark.anyio

MIN_REQUESTS_COUNT = 20


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def clock() -> Clock:
    clock = Clock()
    clock.at = START
    return clock


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path / 'duetime.db'}", clock=clock, synchronous="OFF")
    yield opened
    opened.close()


@pytest.fixture
async def conversation(store: Store, clock: Clock) -> AsyncIterator[Conversation]:
    installation = Installation(store, clock)
    server = make_server(lambda: installation.scheduler, Subscriptions(lambda: store.history))
    async with Client(server) as client:
        yield Conversation(by_sdk(client), installation)


async def test_a_client_gets_the_answers_of_the_page_and_no_others(conversation: Conversation) -> None:
    """`python -m tests.flow.requests` writes the answers again."""
    for request in some(requests(PAGE.read_text("utf-8"))):
        for call, answer in await conversation.answers(request):
            assert answer == call.answer, f"{request.title}: {call.tool}"


def test_the_page_has_twenty_requests_each_with_a_call() -> None:
    found = requests(PAGE.read_text("utf-8"))
    assert len(found) >= MIN_REQUESTS_COUNT
    assert all(request.steps for request in found)
