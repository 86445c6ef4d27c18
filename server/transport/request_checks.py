"""Checks of every request but MCP's and the probes': host, origin, length; the SDK checks those of MCP alike."""

from __future__ import annotations

import logging
from http import HTTPStatus

from duetime.server.auth.access import GUARDED_SCOPE_KEY, AccessRefused
from duetime.server.settings.access import MCP_PATH
from duetime.server.transport.browsers import HttpAccess, against_rebinding
from mcp.server.transport_security import TransportSecurityMiddleware
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_REQUEST_BODY_BYTES = 1024 * 1024
PROBE_PATHS = ("/livez", "/readyz")
"""Supervisors call these by the address of a container or host."""

_MAX_LENGTH_CHARS = 20
"""More digits than any length has; a number of thousands of them is an error to read."""

_TOO_LONG = f"A request may have {MAX_REQUEST_BODY_BYTES} bytes at most."

log = logging.getLogger(__name__)


class RequestChecks:
    """An ASGI application that answers 421 for a foreign host, 403 for a foreign page and 413 for a long body.

    It notes for `server.auth.access` whether callers have to prove who they are.
    """

    def __init__(self, app: ASGIApp, access: HttpAccess, *, guarded: bool) -> None:
        self._app = app
        rules = against_rebinding(access)
        rules.allowed_origins.extend(access.own)
        self._rules = TransportSecurityMiddleware(rules)
        self._guarded = guarded

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope[GUARDED_SCOPE_KEY] = self._guarded
        if scope["path"] in (MCP_PATH, *PROBE_PATHS):
            await self._app(scope, receive, send)
            return
        refusal = await self._rules.validate_request(Request(scope)) or _too_long(scope)
        await (refusal or self._with_bounded_body)(scope, receive, send)

    async def _with_bounded_body(self, scope: Scope, receive: Receive, send: Send) -> None:
        received, is_answered = 0, False

        async def receive_bounded() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > MAX_REQUEST_BODY_BYTES:
                raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _TOO_LONG)
            return message

        async def send_noted(message: Message) -> None:
            nonlocal is_answered
            is_answered = True
            await send(message)

        try:
            await self._app(scope, receive_bounded, send_noted)
        except Exception:
            if received <= MAX_REQUEST_BODY_BYTES or not is_answered:
                raise
            log.debug("a stream ended, because the body of its request is too long")


def _too_long(scope: Scope) -> Response | None:
    length = dict(scope["headers"]).get(b"content-length", b"0")
    long = not length.isdigit() or len(length) > _MAX_LENGTH_CHARS or int(length) > MAX_REQUEST_BODY_BYTES
    return PlainTextResponse(_TOO_LONG, HTTPStatus.REQUEST_ENTITY_TOO_LARGE) if long else None


async def refuse_access(_: Request, refused: Exception) -> Response:
    """Answer a request that raised AccessRefused."""
    if not isinstance(refused, AccessRefused):
        raise refused
    return refused.response()
