"""A stream of server-sent events of any kind: how it is asked for, opened, written and ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from typing import Any, Final

from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.principal import Principal, Scope
from duetime.server.auth.access import requires, token_of
from duetime.server.protocol.subscriber_tokens import Holds, always
from duetime.server.rest.openapi import problems, scope_of
from duetime.server.rest.problem import Malformed, defect, problem
from duetime.server.rest.streams.change_feed import ChangeFeed, ChangeStream
from duetime.server.words.preference import words_for
from duetime.tools.arguments.arguments import Argument
from duetime.tools.arguments.types import Whole
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

STREAM_HEARTBEAT_INTERVAL_S: Final = 15.0
RECONNECT_DELAY_MS: Final = 2_000
MAX_STREAM_S: Final = 86_400
HEARTBEAT_LINE: Final = ": still here\n\n"
RECONNECT_LINE: Final = f"retry: {RECONNECT_DELAY_MS}\n"
PLACE_HEADER: Final = "Last-Event-ID"
STREAM_TYPE: Final = "text/event-stream"
STREAM_SECONDS: Final = Argument(
    "seconds", Whole(0, MAX_STREAM_S), "End the stream after this time; default: never", "seconds=60"
)

log = logging.getLogger(__name__)

Opened = Callable[[Request, Principal, Holds], Awaitable[Response]]
StreamTexts = Callable[[ChangeStream], AsyncIterator[str]]


def stream_endpoint(name: str, surface: str, opened: Opened) -> Callable[[Request], Awaitable[Response]]:
    """Return what serves a stream that `opened` makes for a caller."""
    caller = requires(Scope.TASKS, surface)

    async def endpoint(request: Request) -> Response:
        try:
            by = caller(request)
            token = token_of(request)
            return await opened(request, by, token.holds if token else always)
        except DuetimeError as error:
            return problem(error, words_for(request.headers))
        except Exception as error:  # noqa: BLE001 - a defect must cost one request, not the server
            return defect(name, error)

    return endpoint


def place_given(request: Request) -> str | None:
    """Return the id of the last event that the client read, None without one. Raises Malformed for two."""
    given = request.headers.getlist(PLACE_HEADER)
    if len(given) > 1:
        raise Malformed("it is given twice.", argument=PLACE_HEADER)
    return given[0] if given and given[0] else None


def event_text(kind: str, place: str, data: str) -> str:
    """Write an event whose data is one line of JSON."""
    return f"id: {place}\nevent: {kind}\ndata: {data}\n\n"


class StreamTime:
    """The time that is left to a stream; without `seconds` it never ends by itself."""

    def __init__(self, seconds: float | None) -> None:
        self._ends_at = None if seconds is None else asyncio.get_running_loop().time() + seconds

    def left(self, most: float) -> float:
        """Return the seconds that are left, at most so many."""
        if self._ends_at is None:
            return most
        return min(most, self._ends_at - asyncio.get_running_loop().time())


class EventStream(Response):
    """Opens a stream when it is sent: a client that left before has opened none, and HEAD has its headers alone."""

    def __init__(self, feed: ChangeFeed, by: Principal, holds: Holds, texts: StreamTexts) -> None:
        super().__init__(media_type=STREAM_TYPE)
        self._feed = feed
        self._by = by
        self._holds = holds
        self._texts = texts

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["method"] == "HEAD":
            await _streamed(_no_texts())(scope, receive, send)
            return
        try:
            async with self._feed.opened(self._by, self._holds) as stream:
                await _streamed(self._until_outage(stream))(scope, receive, send)
        except DuetimeError as error:
            await problem(error, words_for(Headers(scope=scope)))(scope, receive, send)

    async def _until_outage(self, stream: ChangeStream) -> AsyncIterator[str]:
        """Give the texts. An outage of the database ends them; the client continues where it was when it reconnects."""
        try:
            async for text in self._texts(stream):
                yield text
        except DuetimeError as error:
            log.warning("a stream of server-sent events ended: %s", error)


def _streamed(texts: AsyncIterator[str]) -> StreamingResponse:
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(texts, headers=headers, media_type=STREAM_TYPE)


async def _no_texts() -> AsyncIterator[str]:
    for text in tuple[str, ...]():
        yield text


def responses(kinds: tuple[str, ...], data: str, *statuses: HTTPStatus) -> dict[int | str, dict[str, Any]]:
    """Return the documented answers of a stream with events of these kinds, and the problems of these statuses."""
    event: dict[str, Any] = {
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "event": {"type": "string", "enum": [*kinds]},
            "data": {"type": "string", "description": data},
            "retry": {"type": "integer"},
        },
        "required": ["id", "event", "data"],
    }
    stream = {"description": "A stream of such events", "content": {STREAM_TYPE: {"schema": event}}}
    return {HTTPStatus.OK.value: stream, **problems(*statuses)}


def in_request(*queried: Argument) -> dict[str, Any]:
    """Return what a document says of the request of a stream: its scope, its query and the place in its header."""
    query = [
        {"name": each.name, "in": "query", "schema": each.kind.schema(), "description": each.about} for each in queried
    ]
    place = {
        "name": PLACE_HEADER,
        "in": "header",
        "schema": {"type": "string"},
        "description": "The id of the last event that was read: the stream goes on behind it",
    }
    return {"security": scope_of(Scope.TASKS), "parameters": [*query, place]}
