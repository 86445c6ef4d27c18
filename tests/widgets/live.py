"""A real `duetime` behind a real MCP client, for code that is not async: the browser's callbacks."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult

from tests import forked

T = TypeVar("T")


class LiveServer:
    """Calls tools of a server that runs in a process of its own; blocks until they answer."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._settings = {
            "DUETIME_DATABASE_URL": f"sqlite:///{folder / 'duetime.db'}",
            "DUETIME_TIMEZONE": "America/Denver",
            "DUETIME_DESKTOP_NOTIFICATIONS": "off",
            **settings,
        }
        self._client: Client | None = None

    def call(self, name: str, args: dict[str, Any]) -> dict[str, Any]:
        """Return the answer as it goes over the wire."""
        assert self._client is not None, "the server does not run: a page that calls it has to be closed before it"
        answer = self._wait(self._client.call_tool(name, args))
        assert isinstance(answer, CallToolResult)
        return answer.model_dump(mode="json", by_alias=True, exclude_none=True)

    def serve(self, name: str, args: dict[str, Any]) -> dict[str, Any]:
        """Answer a call of a card, as a host passes it on."""
        return self.call(name, args)

    @contextmanager
    def running(self) -> Iterator[LiveServer]:
        """Start the server for the time of the block."""
        thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        thread.start()
        stop = asyncio.Event()
        ready: asyncio.Future[None] = self._wait(self._future())
        served = asyncio.run_coroutine_threadsafe(self._serve(ready, stop), self._loop)
        try:
            self._wait(self._shielded(ready))
            yield self
        finally:
            self._loop.call_soon_threadsafe(stop.set)
            served.result(timeout=120)
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join(timeout=120)
            self._loop.close()

    async def _serve(self, ready: asyncio.Future[None], stop: asyncio.Event) -> None:
        program, *arguments = forked.command("-m", "duetime")
        command = StdioServerParameters(command=program, args=arguments, env={**os.environ, **self._settings})
        try:
            async with Client(command) as self._client:
                ready.set_result(None)
                await stop.wait()
        except BaseException as error:
            if not ready.done():
                ready.set_exception(error)
            raise
        finally:
            self._client = None

    async def _future(self) -> asyncio.Future[None]:
        return asyncio.get_running_loop().create_future()

    async def _shielded(self, ready: asyncio.Future[None]) -> None:
        await asyncio.shield(ready)

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=120)
