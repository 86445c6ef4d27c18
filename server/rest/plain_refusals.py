"""Refusals of whatever stands before the routes, such as a foreign host, as problems like all others of `/v1`."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Final

from duetime.server.rest.problem import PROBLEM_TYPE, not_served
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

API_PREFIX: Final = "/v1"
_DESCRIBING: Final = frozenset({b"content-type", b"content-length"})


class PlainRefusals:
    """An ASGI application whose errors below `/v1` are problem+json, also those that no operation wrote."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        rest = scope["type"] == "http" and f"{scope['path']}/".startswith(f"{API_PREFIX}/")
        await self._app(scope, receive, _ProblemSend(send) if rest else send)


class _ProblemSend:
    """Sends one answer; the head of a plain refusal waits for its whole body, which becomes a problem."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._head: Message | None = None
        self._body = b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _is_plain(message):
            self._head = message
        elif self._head is None:
            await self._send(message)
        else:
            self._body += message.get("body", b"")
            if not message.get("more_body"):
                await self._send_problem(self._head)

    async def _send_problem(self, head: Message) -> None:
        code, detail = _read(self._body)
        answer = not_served(head["status"], detail, code=code)
        kept = [(name, value) for name, value in head["headers"] if name.lower() not in _DESCRIBING]
        await self._send({**head, "headers": [*kept, *answer.raw_headers]})
        await self._send({"type": "http.response.body", "body": answer.body})


def _is_plain(head: Message) -> bool:
    kind = Headers(raw=head["headers"]).get("content-type", "")
    return head["status"] >= HTTPStatus.BAD_REQUEST and not kind.startswith(PROBLEM_TYPE)


def _read(body: bytes) -> tuple[str, str]:
    """Return the code and the words of a refusal: a text, or a JSON object as in RFC 6750."""
    text = body.decode(errors="replace")
    try:
        members = json.loads(text)
        return str(members["error"]), str(members["error_description"])
    except (ValueError, KeyError, TypeError):
        return "", text
