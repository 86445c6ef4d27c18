"""Limits of HTTP connections: how long a request may take to arrive, how many there may be, and how open ones end."""

from __future__ import annotations

import asyncio
import logging
import sys
from http import HTTPStatus
from typing import Any, Final

import h11
from duetime.scheduler.runtime.failure_log import RepeatFilter
from duetime.server.auth.access import RETRY_AFTER_S
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

HEAD_TIMEOUT_S: Final = 10.0
BODY_TIMEOUT_S: Final = 30.0
KEEP_ALIVE_S: Final = 75
"""Longer than hosts keep an idle connection, so that the client closes it and loses no call."""
MAX_CLIENT_CONNECTIONS: Final = 1000
MAX_ADDRESS_RATIO: Final = 0.75
"""The part of all connections that one address may have."""

_TIMEOUT_ANSWER: Final = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_FULL_ANSWER: Final = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"

_STOPPING: Final = (
    "The server is stopping, and this request was not done yet. It may still have its effect. "
    "Send it again, with the same idempotency key if it has one."
)

log = logging.getLogger(__name__)
log.addFilter(RepeatFilter())


class LimitedConnection(H11Protocol):
    """A connection whose head must arrive in 10 s and its body in 30 s.

    When there are too many, the one that has waited longest for its head is closed, so that half heads keep nobody out.
    Without such a one the new connection is answered by 503.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.since = self.loop.time()
        self._timeout: asyncio.TimerHandle | None = None
        self._awaited: str | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as the base class
        super().connection_made(transport)
        if self._makes_room():
            self._watch()
        else:
            self._end(_FULL_ANSWER, "refused a connection: %d are open", len(self.connections))

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect(None, 0)
        super().connection_lost(exc)

    @property
    def address(self) -> str:
        return self.client[0] if self.client else ""

    @property
    def is_open(self) -> bool:
        return not self.transport.is_closing()

    @property
    def waits_for_head(self) -> bool:
        return self._awaited == "head"

    def make_way(self) -> None:
        """Close this connection for another one."""
        self._end(_TIMEOUT_ANSWER, "closed a connection without a request: others need its place")

    def _watch(self) -> None:
        """Start the time limit of what has to arrive next, unless it runs already."""
        if self.conn.their_state is h11.IDLE:
            self._expect("head", HEAD_TIMEOUT_S)
        elif self.conn.their_state is h11.SEND_BODY:
            self._expect("body", BODY_TIMEOUT_S)
        else:
            self._expect(None, 0)

    def _expect(self, awaited: str | None, seconds: float) -> None:
        if awaited == self._awaited:
            return
        if self._timeout is not None:
            self._timeout.cancel()
        self._awaited = awaited
        self._timeout = self.loop.call_later(seconds, self._too_slow) if awaited else None

    def _too_slow(self) -> None:
        self._end(_TIMEOUT_ANSWER, "closed a connection: the %s of a request took too long", self._awaited)

    def _end(self, answer: bytes, message: str, *values: object) -> None:
        log.warning(message, *values)
        if not self._is_answering:
            self.transport.write(answer)
        self.transport.close()

    @property
    def _is_answering(self) -> bool:
        """Whether the application may write its own answer: a second one in between would garble it."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _makes_room(self) -> bool:
        """Whether this connection may stay, after the slowest other one was closed for it."""
        others = [each for each in self.connections if isinstance(each, LimitedConnection) and each.is_open]
        others = [each for each in others if each is not self]
        mine = [each for each in others if each.address == self.address]
        most = max_connections()
        if len(others) < most and len(mine) < most * MAX_ADDRESS_RATIO:
            return True
        slow = [each for each in (others if len(others) >= most else mine) if each.waits_for_head]
        if not slow:
            return False
        min(slow, key=lambda each: each.since).make_way()
        return True


def max_connections() -> int:
    """Return how many connections there may be: at most half of the files that this process may open."""
    if sys.platform == "win32":
        return MAX_CLIENT_CONNECTIONS
    import resource  # noqa: PLC0415 - Unix only

    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CLIENT_CONNECTIONS if files == resource.RLIM_INFINITY else min(MAX_CLIENT_CONNECTIONS, files // 2)


class UnansweredAtEnd:
    """An ASGI application that answers 503 where the server cancels a request, which uvicorn would answer by 500.

    A stream of events ends there as one that is over: its reader comes back, and no client takes it for damage.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = streams = False

        async def send_noted(message: Message) -> None:
            nonlocal begun, streams
            begun = True
            if message["type"] == "http.response.start":
                streams = Headers(raw=message["headers"]).get("content-type", "").startswith("text/event-stream")
            await send(message)

        try:
            await self._app(scope, receive, send_noted)
        except asyncio.CancelledError:
            if streams:
                await send({"type": "http.response.body", "body": b""})
                return
            if scope["type"] != "http" or begun:
                raise
            headers = {"Retry-After": str(RETRY_AFTER_S), "Connection": "close"}
            await PlainTextResponse(_STOPPING, HTTPStatus.SERVICE_UNAVAILABLE, headers)(scope, receive, send)
