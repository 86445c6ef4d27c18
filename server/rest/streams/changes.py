"""`/v1/changes`: what happens to the tasks of a tenant as server-sent events, from now on or from where it ended."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.events import Event
from duetime.scheduler.principal import Principal
from duetime.scheduler.runtime.event_tail import EVENTS_PER_PAGE
from duetime.server.protocol.subscriber_tokens import Holds
from duetime.server.rest.openapi import unserved
from duetime.server.rest.operation import Installation
from duetime.server.rest.request_arguments import ReadArguments, read_query
from duetime.server.rest.resources.history import event_payload
from duetime.server.rest.streams.change_feed import ChangeFeed, ChangeStream
from duetime.server.rest.streams.event_stream import (
    HEARTBEAT_LINE,
    RECONNECT_LINE,
    STREAM_HEARTBEAT_INTERVAL_S,
    STREAM_SECONDS,
    EventStream,
    StreamTime,
    event_text,
    in_request,
    place_given,
    responses,
    stream_endpoint,
)
from duetime.server.rest.streams.state_changes import INBOX, POOL, WORKER, StateChange
from duetime.tools.arguments.arguments import Arguments
from duetime.tools.threads import cross
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

if TYPE_CHECKING:
    from fastapi import FastAPI

MAX_RESUMED_EVENTS: Final = 10_000
"""Events, of all tenants, that a stream reads to continue where an earlier one ended."""

LOST_PLACE: Final = sys.maxsize
"""The place behind an id that cannot be read, above all others: the key may be lost, or the id of another tenant."""

CHANGES_OPERATION: Final = "stream_changes"
CHANGES_PATH: Final = "/changes"
ABOUT_DATA: Final = (
    "JSON: of a change, an event as in /events. Of an inbox, message_id, task_id, run_id and state of an outcome, or "
    "of a question (waiting), that came for the caller. For operators: of a pool, its name (pool) and revision, or "
    "removed; of a worker, worker_id, state and drain, or removed."
)
_ARGUMENTS = Arguments(f"GET /v1{CHANGES_PATH}", (STREAM_SECONDS,))


def changes_endpoint(
    parts: Callable[[], Installation], feed: ChangeFeed, surface: str
) -> Callable[[Request], Awaitable[Response]]:
    """Return what serves the stream."""

    async def _opened(request: Request, by: Principal, holds: Holds) -> Response:
        found = ReadArguments()
        read_query(_ARGUMENTS, request.query_params.multi_items(), found)
        if (error := found.error()) is not None:
            raise error
        cursor = place_given(request)
        after = await cross(_place, parts(), by.tenant, cursor) if cursor else None
        reader = _StreamReader(parts, by, after, found.values.get("seconds"))
        return EventStream(feed, by, holds, reader.texts)

    return stream_endpoint(CHANGES_OPERATION, surface, _opened)


def document_changes(api: FastAPI) -> None:
    """Add the stream to the API whose document is written."""
    api.add_api_route(
        CHANGES_PATH,
        unserved(),
        methods=["GET"],
        name=CHANGES_OPERATION,
        operation_id=CHANGES_OPERATION,
        summary="Stream what happens to the tasks of the tenant, as server-sent events",
        tags=["changes"],
        response_class=StreamingResponse,
        responses=responses(("open", "change", INBOX, POOL, WORKER, "reset"), ABOUT_DATA),
        openapi_extra=in_request(STREAM_SECONDS),
    )


def _place(parts: Installation, tenant: str, cursor: str) -> int:
    try:
        return parts.store.history.place_of(tenant, cursor)
    except InvalidArgument:
        return LOST_PLACE


@dataclass(frozen=True, slots=True)
class _StreamReader:
    """Reads one stream: whose it is, from where it continues, and for how long."""

    parts: Callable[[], Installation]
    by: Principal
    after: int | None
    seconds: int | None

    async def texts(self, stream: ChangeStream) -> AsyncIterator[str]:
        """Give the stream: the events since an earlier one, then those that come, and a sign of life in between."""
        time = StreamTime(self.seconds)
        yield await cross(self._opening, stream.begins_at if self.after is None else self.after)
        sent = set[int]()
        if self.after is not None:
            async for text in self._missed(self.after, sent):
                yield text
        while not stream.ended and (left := time.left(STREAM_HEARTBEAT_INTERVAL_S)) > 0:
            found = [each for each in await stream.wait(left) if isinstance(each, StateChange) or each.id not in sent]
            yield await cross(self._written, found) if found else HEARTBEAT_LINE

    async def _missed(self, after: int, sent: set[int]) -> AsyncIterator[str]:
        """Give the events since an earlier stream.

        The client is told to read the lists again after too many, and when the last one is lost or its id unreadable.
        """
        history = self.parts().store.history
        reads = 0 if after > await cross(history.last_id) else MAX_RESUMED_EVENTS // EVENTS_PER_PAGE
        for _ in range(reads):
            events = await cross(history.since, after, limit=EVENTS_PER_PAGE)
            own = [event for event in events if event.tenant == self.by.tenant]
            sent |= {event.id for event in own}
            if own:
                yield await cross(self._written, own)
            if len(events) < EVENTS_PER_PAGE:
                return
            after = events[-1].id
        yield await cross(self._event, "reset", await cross(history.latest), "{}")

    def _opening(self, place: int) -> str:
        """Write the beginning of a stream, which names its place: a client that is cut off at once knows it."""
        return RECONNECT_LINE + self._event("open", place, "{}")

    def _written(self, found: Sequence[Event | StateChange]) -> str:
        zone = self.parts().scheduler.zone or "UTC"
        return "".join(
            self._event(each.kind, each.place, json.dumps(each.data))
            if isinstance(each, StateChange)
            else self._event(
                "change", each.id, event_payload(each, zone).model_dump_json(by_alias=True, exclude_none=True)
            )
            for each in found
        )

    def _event(self, kind: str, place: int, data: str) -> str:
        cursor = self.parts().store.history.cursor_at(self.by.tenant, place)
        return event_text(kind, cursor, data)
