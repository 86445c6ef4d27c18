"""`/v1/changes`: what happens to the tasks of a tenant as server-sent events, from now on or from where it ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from duetime.scheduler.errors import DuetimeError, InvalidArgument
from duetime.scheduler.events import Event
from duetime.scheduler.principal import Principal, Scope
from duetime.server.auth.access import requires, token_of
from duetime.server.protocol.subscriber_tokens import Holds, always
from duetime.server.rest.change_feed import EVENTS_PER_READ, ChangeFeed, ChangeStream
from duetime.server.rest.openapi import problems, scope_of, unserved
from duetime.server.rest.operation import Installation
from duetime.server.rest.problem import Malformed, defect, problem
from duetime.server.rest.request_arguments import ReadArguments, read_query
from duetime.server.rest.resources.history import event_payload
from duetime.tools.arguments.arguments import Argument, Arguments
from duetime.tools.arguments.types import Whole
from duetime.tools.threads import cross
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

if TYPE_CHECKING:
    from fastapi import FastAPI

HEARTBEAT_INTERVAL_S: Final = 15.0
RECONNECT_DELAY_MS: Final = 2_000
MAX_STREAM_S: Final = 86_400
MAX_RESUMED_EVENTS: Final = 10_000
"""Events, of all tenants, that a stream reads to go on where an earlier one ended."""

PLACE_HEADER: Final = "Last-Event-ID"
STREAM_TYPE: Final = "text/event-stream"
NAME: Final = "stream_changes"
PATH: Final = "/changes"
SECONDS = Argument("seconds", Whole(0, MAX_STREAM_S), "End the stream after so long; default: never", "seconds=60")
_ARGUMENTS = Arguments(f"GET /v1{PATH}", (SECONDS,))
_EVENT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "event": {"type": "string", "enum": ["open", "change", "reset"]},
        "data": {"type": "string", "description": "JSON: of a change, an event as in /events"},
        "retry": {"type": "integer"},
    },
    "required": ["id", "event", "data"],
}
_HEARTBEAT = ": still here\n\n"

log = logging.getLogger(__name__)


def changes_endpoint(
    parts: Callable[[], Installation], feed: ChangeFeed, surface: str
) -> Callable[[Request], Awaitable[Response]]:
    """Return what serves the stream."""
    caller = requires(Scope.TASKS, surface)

    async def endpoint(request: Request) -> Response:
        try:
            by = caller(request)
            token = token_of(request)
            return await _opened(request, by, token.holds if token else always)
        except DuetimeError as error:
            return problem(error)
        except Exception as error:  # noqa: BLE001 - a defect must cost one request, not the server
            return defect(NAME, error)

    async def _opened(request: Request, by: Principal, holds: Holds) -> Response:
        found = ReadArguments()
        read_query(_ARGUMENTS, request.query_params.multi_items(), found)
        if (error := found.error()) is not None:
            raise error
        cursor = _cursor(request)
        after = await cross(_place, parts(), by.tenant, cursor) if cursor else None
        return _Changes(feed, _StreamReader(parts, by, holds, after, found.values.get("seconds")))

    return endpoint


def document_changes(api: FastAPI) -> None:
    """Add the stream to the API whose document is written."""
    api.add_api_route(
        PATH,
        unserved(),
        methods=["GET"],
        name=NAME,
        operation_id=NAME,
        summary="Stream what happens to the tasks of the tenant, as server-sent events",
        tags=["changes"],
        response_class=StreamingResponse,
        responses=_responses(),
        openapi_extra=_extra(),
    )


def _place(parts: Installation, tenant: str, cursor: str) -> int:
    try:
        return parts.store.history.place_of(tenant, cursor)
    except InvalidArgument as wrong:
        raise InvalidArgument(PLACE_HEADER, "it is no id of an event of this stream") from wrong


def _cursor(request: Request) -> str | None:
    given = request.headers.getlist(PLACE_HEADER)
    if len(given) > 1:
        raise Malformed("it is given twice.", argument=PLACE_HEADER)
    return given[0] if given and given[0] else None


@dataclass(frozen=True, slots=True)
class _StreamReader:
    """Reads one stream: whose it is, from where it goes on, and for how long."""

    parts: Callable[[], Installation]
    by: Principal
    holds: Holds
    after: int | None
    seconds: int | None

    async def texts(self, stream: ChangeStream) -> AsyncIterator[str]:
        """Give the stream: the events since an earlier one, then those that come, and a sign of life in between.

        An outage of the database ends it; the client goes on where it was when it connects again.
        """
        try:
            async for text in self._texts(stream):
                yield text
        except DuetimeError as error:
            log.warning("a stream of changes ended: %s", error)

    async def _texts(self, stream: ChangeStream) -> AsyncIterator[str]:
        ends_at = None if self.seconds is None else asyncio.get_running_loop().time() + self.seconds
        yield await cross(self._opening, stream.begins_at if self.after is None else self.after)
        sent = set[int]()
        if self.after is not None:
            async for text in self._missed(self.after, sent):
                yield text
        while not stream.ended and (left := _left(ends_at)) > 0:
            events = [event for event in await stream.wait(left) if event.id not in sent]
            yield await cross(self._written, events) if events else _HEARTBEAT

    async def _missed(self, after: int, sent: set[int]) -> AsyncIterator[str]:
        """Give the events since an earlier stream; after too many the client is told to read the lists again."""
        history = self.parts().store.history
        for _ in range(MAX_RESUMED_EVENTS // EVENTS_PER_READ):
            events = await cross(history.since, after, limit=EVENTS_PER_READ)
            own = [event for event in events if event.tenant == self.by.tenant]
            sent |= {event.id for event in own}
            if own:
                yield await cross(self._written, own)
            if len(events) < EVENTS_PER_READ:
                return
            after = events[-1].id
        yield await cross(self._event, "reset", await cross(history.latest), "{}")

    def _opening(self, place: int) -> str:
        """Write the beginning of a stream, which names its place: a client that is cut off at once knows it."""
        return f"retry: {RECONNECT_DELAY_MS}\n{self._event('open', place, '{}')}"

    def _written(self, events: Sequence[Event]) -> str:
        zone = self.parts().scheduler.zone or "UTC"
        return "".join(
            self._event(
                "change", event.id, event_payload(event, zone).model_dump_json(by_alias=True, exclude_none=True)
            )
            for event in events
        )

    def _event(self, kind: str, place: int, data: str) -> str:
        cursor = self.parts().store.history.cursor_at(self.by.tenant, place)
        return f"id: {cursor}\nevent: {kind}\ndata: {data}\n\n"


def _left(ends_at: float | None) -> float:
    if ends_at is None:
        return HEARTBEAT_INTERVAL_S
    return min(HEARTBEAT_INTERVAL_S, ends_at - asyncio.get_running_loop().time())


class _Changes(Response):
    """Opens a stream when it is sent: a client that left before has opened none."""

    def __init__(self, feed: ChangeFeed, reader: _StreamReader) -> None:
        super().__init__(media_type=STREAM_TYPE)
        self._feed = feed
        self._reader = reader

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        try:
            async with self._feed.opened(self._reader.by.tenant, self._reader.holds) as stream:
                headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
                texts = self._reader.texts(stream)
                await StreamingResponse(texts, headers=headers, media_type=STREAM_TYPE)(scope, receive, send)
        except DuetimeError as error:
            await problem(error)(scope, receive, send)


def _responses() -> dict[int | str, dict[str, Any]]:
    stream = {"description": "A stream of such events", "content": {STREAM_TYPE: {"schema": _EVENT}}}
    return {HTTPStatus.OK.value: stream, **problems(HTTPStatus.TOO_MANY_REQUESTS)}


def _extra() -> dict[str, Any]:
    place = {
        "name": PLACE_HEADER,
        "in": "header",
        "schema": {"type": "string"},
        "description": "The id of the last event that was read: the stream goes on behind it",
    }
    seconds = {"name": SECONDS.name, "in": "query", "schema": SECONDS.kind.schema(), "description": SECONDS.about}
    return {"security": scope_of(Scope.TASKS), "parameters": [seconds, place]}
