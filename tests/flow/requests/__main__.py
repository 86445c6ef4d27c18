"""Writes the answers on `docs/requests.md` again: `python -m tests.flow.requests`."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from duetime.scheduler.store import open_store
from duetime.server.protocol.server import make_server
from duetime.server.protocol.subscriptions import Subscriptions
from mcp import Client

from tests.builders import Clock
from tests.flow.requests.conversation import Conversation, by_sdk
from tests.flow.requests.installation import Installation
from tests.flow.requests.page import PAGE, requests
from tests.flow.requests.start import START


async def written() -> str:
    """Return the page with the answers that calls get now."""
    text = PAGE.read_text("utf-8")
    clock = Clock()
    clock.at = START
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"sqlite:///{Path(folder) / 'duetime.db'}", clock=clock, synchronous="OFF")
        installation = Installation(store, clock)
        server = make_server(lambda: installation.scheduler, Subscriptions(lambda: store.history))
        async with Client(server) as client:
            conversation = Conversation(by_sdk(client), installation)
            found = [pair for each in requests(text) for pair in await conversation.answers(each)]
        store.close()
    for call, answer in reversed(found):
        start, end = call.span
        text = f"{text[:start]}{answer}\n{text[end:]}"
    return text


if __name__ == "__main__":
    PAGE.write_text(asyncio.run(written()), "utf-8")
    sys.stdout.write(f"{PAGE.name} is up to date\n")
