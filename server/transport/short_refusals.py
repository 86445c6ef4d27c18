"""Short refusals over HTTP: what the SDK refuses before any of our code is called, cut as everything else is."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

from duetime.scheduler.errors import MAX_REFUSAL_BYTES
from duetime.server.protocol.refusals import shortened
from mcp.types import ErrorData
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_JSON_TYPE = b"application/json"
_ERROR = b'"error":{'
_HEAD_BYTES = 200
"""Bytes of an answer in which its error stands, if it is one."""


class ShortRefusals:
    """An ASGI application whose JSON-RPC errors are bounded."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, _ShortSend(send) if scope["type"] == "http" else send)


class _ShortSend:
    """Sends one answer; the head of a JSON document waits for its body, whose length it states."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._head: Message | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and (b"content-type", _JSON_TYPE) in message["headers"]:
            self._head = message
            return
        if self._head is not None:
            head, self._head = self._head, None
            body = _short(head["status"], message) if not message.get("more_body") else None
            if body is not None:
                others = [(name, value) for name, value in head["headers"] if name != b"content-length"]
                head = {**head, "headers": [*others, (b"content-length", str(len(body)).encode())]}
                message = {**message, "body": body}
            await self._send(head)
        await self._send(message)


def _short(status: int, message: Message) -> bytes | None:
    """Return a shorter body, None where it may stay."""
    body: bytes = message.get("body", b"")
    if status < HTTPStatus.BAD_REQUEST and (len(body) <= MAX_REFUSAL_BYTES or _ERROR not in body[:_HEAD_BYTES]):
        return None
    try:
        answer: Any = json.loads(body)
        error = ErrorData.model_validate(answer["error"])
    except (ValueError, TypeError, KeyError):
        return None
    answer["error"] = shortened(error).model_dump(exclude_unset=True)
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode()
