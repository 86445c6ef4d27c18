"""The private names of the MCP SDK, all here: an upgrade of the SDK is checked against this module."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Protocol

from mcp.server import MCPServer
from mcp.server._otel import OpenTelemetryMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import server as mcpserver
from mcp.server.mcpserver.tools import Tool
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.subscriptions import ListenHandler
from mcp.types import (
    INTERNAL_ERROR,
    SERVER_INFO_META_KEY,
    EmptyResult,
    SubscribeRequestParams,
    UnsubscribeRequestParams,
)
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

_VERSION = b"mcp-protocol-version"
_SESSION = b"mcp-session-id"

MAX_TENANT_SESSIONS = 1_000
"""Open sessions of one tenant: the SDK counts those of all together (10,000), and ends one that is idle for 30 min."""

Subscribe = Callable[[ServerRequestContext[Any, Any], SubscribeRequestParams], Awaitable[EmptyResult]]
Unsubscribe = Callable[[ServerRequestContext[Any, Any], UnsubscribeRequestParams], Awaitable[EmptyResult]]


class EndedSessions(Protocol):
    """Sessions that died with an earlier process."""

    def names(self, scope: Scope) -> bool: ...

    def watching(self, scope: Scope, send: Send) -> Send: ...


def lowlevel(server: MCPServer[None]) -> Server[None]:
    """Return what the SDK's own transports run; MCPServer has no public way to it."""
    return server._lowlevel_server  # noqa: SLF001 - see above


@contextmanager
def without_log_setup() -> Iterator[None]:
    """Keep a new MCPServer from configuring logs, for which it loads `rich`: this process has configured them."""
    its_globals = vars(mcpserver)
    configure = its_globals["configure_logging"]
    its_globals["configure_logging"] = lambda _level: None
    try:
        yield
    finally:
        its_globals["configure_logging"] = configure


def connection_of(ctx: ServerRequestContext[Any, Any]) -> Connection:
    """Return the connection of a request: there is no public way to learn that a client left."""
    return ctx.session._connection  # noqa: SLF001 - see above


def replace_tools(server: MCPServer[None], tools: Iterable[Tool]) -> None:
    """Replace the tools of these names: MCPServer makes tools of functions only, once it is made."""
    server._tool_manager._tools.update({tool.name: tool for tool in tools})  # noqa: SLF001 - see above


def tool_of(server: MCPServer[None], name: object) -> Tool | None:
    """Return the tool of this name, None without one: MCPServer lists tools, but gives none away."""
    return server._tool_manager.get_tool(name) if isinstance(name, str) else None  # noqa: SLF001 - see above


def identity_of(server: MCPServer[None]) -> dict[str, Any]:
    """Return what the SDK adds to each answer of the present protocol; the caller may keep it."""
    return {SERVER_INFO_META_KEY: lowlevel(server).server_info_stamp}


def expect_no_argument_headers(server: MCPServer[None]) -> None:
    """Say that no argument of a tool is repeated in an HTTP header: the SDK would walk a whole schema at each call."""
    lowlevel(server).get_tool_input_schema = lambda _: None


def keeps_spans() -> bool:
    """Whether something keeps spans; without the SDK of OpenTelemetry each is nothing."""
    return "opentelemetry.sdk.trace" in sys.modules


def make_no_idle_spans(server: MCPServer[None]) -> None:
    """Make spans only where something keeps them: without the SDK of OpenTelemetry the SDK makes each in vain."""
    chain = lowlevel(server).middleware
    chain[:] = [_where_kept(each) if isinstance(each, OpenTelemetryMiddleware) else each for each in chain]


def _where_kept(spans: ServerMiddleware[Any]) -> ServerMiddleware[Any]:
    async def call(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        return await (spans(ctx, call_next) if keeps_spans() else call_next(ctx))

    return call


def serve_subscribe(server: MCPServer[None], subscribe: Subscribe, unsubscribe: Unsubscribe) -> None:
    """Serve `resources/subscribe` of the earlier eras, for which MCPServer has no public way."""
    handlers = lowlevel(server)
    handlers.add_request_handler("resources/subscribe", SubscribeRequestParams, subscribe)
    handlers.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, unsubscribe)


def serve_dead_sessions(server: MCPServer[None], dead: EndedSessions) -> None:
    """Serve sessions that `dead` names statelessly, for which the session manager has no setting."""
    manager = server.session_manager
    stateful = manager._handle_stateful_request  # noqa: SLF001 - see above

    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        name = next((value.decode("latin-1") for name, value in scope["headers"] if name == _SESSION), "")
        if name in manager._server_instances:  # noqa: SLF001 - as above; a stranger's 404 leaves its owner alone
            await stateful(scope, receive, send)
        elif dead.names(scope):
            version = next((value.decode("latin-1") for name, value in scope["headers"] if name == _VERSION), None)
            await manager._handle_stateless_request(version, scope, receive, send)  # noqa: SLF001 - see above
        elif not name and (refusal := _too_many_sessions(manager, scope.get("user"))):
            await refusal(scope, receive, send)
        else:
            await stateful(scope, receive, dead.watching(scope, send))

    manager._handle_stateful_request = handle  # type: ignore[method-assign]  # noqa: SLF001 - see above


def _too_many_sessions(manager: StreamableHTTPSessionManager, user: object) -> JSONResponse | None:
    """Return the refusal of a new session, None where its tenant, the client of its token, may have one more."""
    if not isinstance(user, AuthenticatedUser):
        return None
    tenant, owners = user.access_token.client_id, manager._session_owners.values()  # noqa: SLF001 - see above
    if sum(owner["client_id"] == tenant for owner in owners) < MAX_TENANT_SESSIONS:
        return None
    message = f"This tenant has {MAX_TENANT_SESSIONS} open sessions already. End some, or call without a session."
    error = {"code": INTERNAL_ERROR, "message": message}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, HTTPStatus.TOO_MANY_REQUESTS)


def end_streams(server: MCPServer[None]) -> None:
    """Notify listeners that the server ends, instead of cutting them off. Call it on the event loop."""
    entry = lowlevel(server).get_request_handler("subscriptions/listen")
    if entry is not None and isinstance(entry.handler, ListenHandler):
        entry.handler.close()
