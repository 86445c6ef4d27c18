"""A guarded server inside the test: the application as `duetime serve` makes it, called over HTTP without a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from duetime.scheduler.access.api_key import ApiKey
from duetime.scheduler.handlers import Plugin
from duetime.scheduler.runtime.traces import Tracing
from duetime.server.app import App, build
from duetime.server.auth.guard import Guard
from duetime.server.auth.key_format import KeyText
from duetime.server.settings.model import Settings
from duetime.server.transport.browsers import HttpAccess
from duetime.server.transport.http import HttpSite, http_app
from duetime.server.transport.serve_http import connect, surfaces
from starlette.routing import BaseRoute

from tests import blank

MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
ACCEPTED = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@dataclass(frozen=True, slots=True)
class Site:
    """The server, its application and a client that knows nothing but HTTP."""

    app: App
    http: httpx2.AsyncClient

    def key(
        self,
        tenant: str = "acme",
        user: str = "ann",
        *,
        scopes: Iterable[str] = ("tasks",),
        validity: timedelta | None = None,
    ) -> str:
        """Make a key as `duetime keys create` does."""
        text, now, keys = KeyText.new(), self.app.store.now(), self.app.store.api_keys
        ends = now + validity if validity is not None else None
        keys.add(ApiKey(text.id, tenant, user, tuple(scopes), "test", text.digest, now, ends))
        return text.text

    async def modern(self, token: str | None, method: str, **params: object) -> httpx2.Response:
        named = {"Mcp-Name": str(params.get("name", params.get("uri", "")))}
        headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, **named}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": MODERN, **params}}
        return await self.post(token, body, **headers)

    async def post(self, token: str | None, body: Any, **headers: str) -> httpx2.Response:
        given = bearer(token) if token is not None else {}
        return await self.http.post("/mcp", json=body, headers=ACCEPTED | given | headers)

    async def call(self, token: str | None, tool: str, **arguments: object) -> dict[str, Any]:
        answer = await self.modern(token, "tools/call", name=tool, arguments=arguments)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()["result"]
        return found

    async def session(self, token: str) -> dict[str, str]:
        """Shake hands as clients of 2025 do; return the headers of the session."""
        welcome = await self.post(token, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO})
        headers = {"Mcp-Session-Id": welcome.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25"}
        await self.post(token, {"jsonrpc": "2.0", "method": "notifications/initialized"}, **headers)
        return headers


Serve = Callable[..., Awaitable[Site]]


@asynccontextmanager
async def serving(
    folder: Path,
    *,
    routes: Sequence[BaseRoute] = (),
    handlers: Sequence[Plugin] = (),
    tracing: Tracing | None = None,
    **settings: Any,
) -> AsyncIterator[Site]:
    """Serve a database in this folder, with further routes; with handlers, what is due runs too."""
    given = {"database_url": f"sqlite:///{folder}/duetime.db", "desktop_notifications": "off", "timezone": "UTC"}
    if "database_url" not in settings:
        blank.make(folder / "duetime.db")
    made = Settings.model_validate({**given, "sqlite_synchronous": "OFF", **settings})
    with build(made, handlers=handlers, tracing=tracing) as app:
        if handlers:
            app.start()
        guard = Guard.of(made, lambda: app.store)
        server = connect(app, guard)
        access, served = HttpAccess.of(made), [*surfaces(app, guard), *routes]
        asgi = http_app(HttpSite(server, app.ready, access, served, app.observers.refused))
        transport = httpx2.ASGITransport(asgi)
        async with (
            server.session_manager.run(),
            httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http,
        ):
            yield Site(app, http)


@pytest.fixture
async def serve(tmp_path: Path) -> AsyncIterator[Serve]:
    """Return what serves the test's database with given settings."""
    async with AsyncExitStack() as stack:

        async def served(**settings: Any) -> Site:
            return await stack.enter_async_context(serving(tmp_path, **settings))

        yield served
