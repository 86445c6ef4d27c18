"""A client of a stream of server-sent events, which reads it while it goes on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.flow.auth.conftest import Site, bearer

PATIENCE_S = 60.0


@dataclass
class Listening:
    """An open stream as a client reads it; `status` is that of its answer."""

    status: int = 0
    text: str = ""
    came: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def end(self) -> None:
        self.over.set()
        self.came.set()

    async def event(self, kind: str, count: int = 1) -> list[dict[str, Any]]:
        """Return the events of a kind, as soon as there are so many."""
        async with asyncio.timeout(PATIENCE_S):
            while len(found := self.events(kind)) < count and not self.over.is_set():
                await self.came.wait()
                self.came.clear()
        return found

    def events(self, kind: str) -> list[dict[str, Any]]:
        blocks = [dict(line.split(": ", 1) for line in block.splitlines()) for block in self.text.split("\n\n")[:-1]]
        return [{**json.loads(block["data"]), "id": block["id"]} for block in blocks if block.get("event") == kind]


@asynccontextmanager
async def listening(
    site: Site, token: str | None = None, query: str = "", path: str = "/v1/changes", **headers: str
) -> AsyncIterator[Listening]:
    """Read a stream while the block runs: the client of the other tests reads nothing before the end."""
    found, left = Listening(), asyncio.Event()
    given = {"Host": "127.0.0.1", **(bearer(token) if token else {}), **headers}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    requested = False

    async def receive() -> dict[str, Any]:
        nonlocal requested
        if requested:
            await left.wait()
            return {"type": "http.disconnect"}
        requested = True
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        found.status = message.get("status", found.status)
        found.text += message.get("body", b"").decode()
        found.came.set()

    app: Any = site.http._transport
    task = asyncio.create_task(app.app(scope, receive, send))
    task.add_done_callback(lambda _: found.end())
    try:
        yield found
    finally:
        left.set()
        async with asyncio.timeout(PATIENCE_S):
            await task
