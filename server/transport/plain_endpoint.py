"""The endpoint of MCP over HTTP, within the checks of tokens: plain calls of tools are answered without the SDK."""

from __future__ import annotations

import json
from http import HTTPStatus

from duetime.server.auth.caller import note_caller
from duetime.server.protocol.plain_calls import CALL_METHOD, PlainCall, PlainToolCalls
from mcp.server import MCPServer
from mcp.server.streamable_http import check_accept_headers
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from mcp.shared.inbound import MCP_METHOD_HEADER, find_duplicated_routing_header
from mcp.types import JSONRPCRequest
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class PlainEndpoint:
    """An ASGI application that answers plain calls, and leaves every other request to the SDK's."""

    def __init__(self, sdk: ASGIApp, server: MCPServer[None], security: TransportSecuritySettings) -> None:
        self._sdk = sdk
        self._calls = PlainToolCalls(server)
        self._rules = TransportSecurityMiddleware(security)
        self._guarded = server.settings.auth is not None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        if request.method != "POST" or request.headers.get(MCP_METHOD_HEADER) != CALL_METHOD:
            await self._sdk(scope, receive, send)
            return
        message = await receive()
        call = self._call_in(message, request)
        if call is None or not note_caller(request, guarded=self._guarded):
            await self._sdk(scope, _resumed(message, receive), send)
        elif refusal := await self._rules.validate_request(request, is_post=True):
            await refusal(scope, receive, send)
        else:
            result = await call.tool.answer(call.arguments, call.origin)
            await _send(self._calls.in_json(call, result), send)

    def _call_in(self, message: Message, request: Request) -> PlainCall | None:
        """Return the call of a body that came whole; every header has to be as the SDK wants it."""
        if message["type"] != "http.request" or message.get("more_body"):
            return None
        if not check_accept_headers(request)[0] or find_duplicated_routing_header(request.headers.items()):
            return None
        try:
            called = JSONRPCRequest.model_validate(json.loads(message["body"]))
        except (ValueError, RecursionError):
            return None
        return self._calls.of(called, request.headers)


def _resumed(first: Message, receive: Receive) -> Receive:
    """Return what receives a message again, and then those that follow."""
    messages = [first]

    async def resume() -> Message:
        return messages.pop() if messages else await receive()

    return resume


async def _send(body: bytes, send: Send) -> None:
    headers = [(b"content-length", str(len(body)).encode()), (b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": HTTPStatus.OK.value, "headers": headers})
    await send({"type": "http.response.body", "body": body})
