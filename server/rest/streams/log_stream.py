"""`/v1/runs/{run_id}/log/stream`: what the handler of a run logs as server-sent events, until the run has ended."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.events import Event
from duetime.scheduler.foresight.readers.past_reader import MAX_LOG_LINES_READ
from duetime.scheduler.principal import Principal
from duetime.scheduler.view_parts import RunLog
from duetime.server.protocol.subscriber_tokens import Holds
from duetime.server.rest.openapi import unserved
from duetime.server.rest.operation import Installation, RestCall
from duetime.server.rest.request_arguments import ReadArguments, read_query
from duetime.server.rest.resources.history import TENANT, read_by
from duetime.server.rest.resources.run_log import RUN_OR_TASK_ID, RunLogPayload
from duetime.server.rest.streams.change_feed import ChangeFeed, ChangeStream
from duetime.server.rest.streams.event_stream import (
    HEARTBEAT_LINE,
    PLACE_HEADER,
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
from duetime.tools.admin.run_rows import log_json
from duetime.tools.arguments.arguments import Arguments
from duetime.tools.threads import cross
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

if TYPE_CHECKING:
    from fastapi import FastAPI

LOG_STREAM_INTERVAL_S: Final = 1.0
"""A handler's lines are stored in chunks, for which there is no event."""

BEFORE_ALL: Final = "0.0"
"""The place before the first line."""

LOG_STREAM_OPERATION: Final = "stream_run_log"
LOG_STREAM_PATH: Final = "/runs/{run_id}/log/stream"
_IN_PATH = Arguments(f"GET /v1{LOG_STREAM_PATH}", (RUN_OR_TASK_ID,))
_IN_QUERY = Arguments(f"GET /v1{LOG_STREAM_PATH}", (STREAM_SECONDS, TENANT))


def log_endpoint(
    parts: Callable[[], Installation], feed: ChangeFeed, surface: str
) -> Callable[[Request], Awaitable[Response]]:
    """Return what serves the stream."""

    async def opened(request: Request, by: Principal, holds: Holds) -> Response:
        found = ReadArguments()
        found.read(_IN_PATH, request.path_params)
        read_query(_IN_QUERY, request.query_params.multi_items(), found)
        if (error := found.error()) is not None:
            raise error
        call, place = RestCall(parts(), by, found.values), place_given(request)
        reader = await cross(_reader, parts, call, place or BEFORE_ALL)
        return EventStream(feed, by, holds, reader.texts)

    return stream_endpoint(LOG_STREAM_OPERATION, surface, opened)


def document_run_log(api: FastAPI) -> None:
    """Add the stream to the API whose document is written."""
    extra = in_request(STREAM_SECONDS, TENANT)
    run_id = {"name": RUN_OR_TASK_ID.name, "in": "path", "required": True, "schema": RUN_OR_TASK_ID.kind.schema()}
    extra["parameters"].insert(0, {**run_id, "description": RUN_OR_TASK_ID.about})
    api.add_api_route(
        LOG_STREAM_PATH,
        unserved(),
        methods=["GET"],
        name=LOG_STREAM_OPERATION,
        operation_id=LOG_STREAM_OPERATION,
        summary="Stream what the handler of a run logs, as server-sent events, until the run has ended",
        tags=["runs"],
        response_class=StreamingResponse,
        responses=responses(("line", "end"), "JSON: of a line, one as in /runs/{run_id}/log", HTTPStatus.NOT_FOUND),
        openapi_extra=extra,
    )


def _reader(parts: Callable[[], Installation], call: RestCall, place: str) -> _LogReader:
    """Return what reads the log, once it is known that the caller may and that the place is one of it."""
    given = read_by(call)
    try:
        found = parts().scheduler.past.run_log(call.values["run_id"], after=place, limit=1, **given)
    except InvalidArgument as wrong:
        if wrong.argument != "after":
            raise
        raise InvalidArgument(PLACE_HEADER, "it is not the id of an event of this stream") from wrong
    return _LogReader(parts, found.run_id, given, place, call.values.get("seconds"))


@dataclass(frozen=True, slots=True)
class _LogReader:
    """Reads the log of one run for one stream: in whose name, from which line on, and for how long."""

    parts: Callable[[], Installation]
    run_id: str
    by: dict[str, Any]
    place: str
    seconds: int | None

    async def texts(self, stream: ChangeStream) -> AsyncIterator[str]:
        """Give each line once, and `end` behind the last one of a run that has ended; signs of life in between."""
        time, place, idle_s = StreamTime(self.seconds), self.place, 0.0
        yield RECONNECT_LINE + HEARTBEAT_LINE
        while not stream.ended:
            found = await cross(self._read, place)
            if found.lines:
                yield _written(found)
                place, idle_s = found.lines[-1].place, 0.0
            if found.more:
                continue
            if found.ended:
                yield event_text("end", place, "{}")
                return
            if (left := time.left(LOG_STREAM_INTERVAL_S)) <= 0:
                return
            await self._pause(stream, left)
            idle_s += left
            if idle_s >= STREAM_HEARTBEAT_INTERVAL_S:
                yield HEARTBEAT_LINE
                idle_s = 0.0

    async def _pause(self, stream: ChangeStream, seconds: float) -> None:
        """Wait for so long, or until something happens to the run: it may be its end."""
        time = StreamTime(seconds)
        while not stream.ended and (left := time.left(seconds)) > 0:
            found = await stream.wait(left)
            if any(isinstance(each, Event) and each.run_id == self.run_id for each in found):
                return

    def _read(self, place: str) -> RunLog:
        return self.parts().scheduler.past.run_log(self.run_id, after=place, limit=MAX_LOG_LINES_READ, **self.by)


def _written(found: RunLog) -> str:
    lines = RunLogPayload.model_validate(log_json(found)).lines
    return "".join(event_text("line", line.place, line.model_dump_json(exclude_none=True)) for line in lines)
