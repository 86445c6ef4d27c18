"""The REST API as routes: who calls, what the request says, the answer of its operation, and its problems."""

from __future__ import annotations

import difflib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from duetime.scheduler.errors import DuetimeError, IllegalMove
from duetime.scheduler.outbound.headers import JSON_MEDIA_TYPE
from duetime.scheduler.principal import Principal
from duetime.server.auth.access import operator_only, requires
from duetime.server.rest import openapi
from duetime.server.rest.operation import Installation, Operation, RestAnswer, RestCall
from duetime.server.rest.operations import OPERATIONS
from duetime.server.rest.plain_refusals import API_PREFIX
from duetime.server.rest.problem import STALE, Malformed, defect, not_served, problem
from duetime.server.rest.request_arguments import ReadArguments, read_body, read_condition, read_key, read_query
from duetime.server.rest.request_record import observe
from duetime.server.rest.signals import fire
from duetime.server.rest.streams import changes, log_stream
from duetime.server.rest.streams.change_feed import ChangeFeed
from duetime.server.words.preference import words_for
from duetime.tools.arguments.arguments import Arguments, action_of
from duetime.tools.threads import cross
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Match, Mount, Route

if TYPE_CHECKING:
    from fastapi import FastAPI

REST_SURFACE: Final = "rest"
Endpoint = Callable[[Request], Any]
_LISTS_ALL: Final = "GET /v1/openapi.json lists all."
_MAX_COMPARED_CHARS: Final = 200


_STREAMS: Final = (
    (changes.CHANGES_PATH, changes.CHANGES_OPERATION, changes.changes_endpoint),
    (log_stream.LOG_STREAM_PATH, log_stream.LOG_STREAM_OPERATION, log_stream.log_endpoint),
)


def routes(parts: Callable[[], Installation], listeners: list[Callable[[Sequence[str]], None]]) -> Sequence[BaseRoute]:
    """Return the routes of the API over the application that `parts` gives at the time of a request.

    Changes in this process are passed to `listeners`, of which the stream of changes becomes one.
    """
    feed = ChangeFeed(lambda: parts().store)
    listeners.append(feed.wake)
    mount = Mount(API_PREFIX, api(parts, feed))
    mount.path_regex = re.compile(mount.path_regex.pattern, re.DOTALL)  # a line break in an id is in the path too
    return [mount]


def api(parts: Callable[[], Installation], feed: ChangeFeed) -> Starlette:
    """Return the API as an application of its own, below no prefix."""
    served = [
        Route(openapi.DOCUMENT_PATH, _document),
        *(_route(each.path, each.method, _endpoint(each, parts), each.name) for each in OPERATIONS),
        _route(fire.FIRE_PATH, "POST", fire.fire_endpoint(parts), fire.FIRE_OPERATION),
        *(
            _route(path, "GET", _observed(name, "GET", path, parts, opened(parts, feed, REST_SURFACE)), name)
            for path, name, opened in _STREAMS
        ),
    ]
    found = Starlette(routes=served, exception_handlers={HTTPException: _not_served})
    found.router.redirect_slashes = False
    return found


def _route(path: str, method: str, endpoint: Endpoint, name: str) -> Route:
    """Return a route for one method; one for GET answers HEAD too."""
    return Route(path, endpoint, methods=[method], name=name)


@cache
def document() -> Mapping[str, Any]:
    """Return the OpenAPI document of the API."""

    def add_all(documented: FastAPI) -> None:
        for operation in OPERATIONS:
            openapi.add(documented, operation)
        changes.document_changes(documented)
        log_stream.document_run_log(documented)
        fire.document_fire(documented)

    return openapi.written(API_PREFIX, add_all)


async def _document(_request: Request) -> Response:
    return JSONResponse(await cross(document))


class _Served:
    """An operation that is served: its arguments by the part of the request that gives them."""

    def __init__(self, operation: Operation, parts: Callable[[], Installation]) -> None:
        text = f"{operation.method} {API_PREFIX}{operation.route}"
        self._operation = operation
        self._parts = parts
        self._path = Arguments(text, operation.in_path)
        self._query = Arguments(text, operation.in_query)
        self._body = Arguments(text, operation.body or ())

    def answered(self, by: Principal, request: Request, body: bytes) -> RestAnswer:
        """Read a request and answer it, on a thread. Raises DuetimeError."""
        call = self.read(by, request, body)
        while True:
            try:
                return self._operation.answer(call)
            except STALE as stale:  # it has stored nothing
                if stale.current not in call.other_revisions:
                    raise
                others = tuple(each for each in call.other_revisions if each != stale.current)
                call = replace(call, revision=stale.current, other_revisions=others)

    def read(self, by: Principal, request: Request, body: bytes) -> RestCall:
        """Read a request, on a thread. Raises DuetimeError."""
        operation, found = self._operation, ReadArguments()
        found.read(self._path, request.path_params)
        read_query(self._query, request.query_params.multi_items(), found)
        given, parts = read_body(operation, request.headers, body), self._parts()
        found.read(self._body, given, partial(action_of, parts.scheduler, found.values.get("task_id"), by))
        call = RestCall(parts, by, found.values, idempotency_key=read_key(operation, request.headers, _repeatable()))
        error = found.error()
        if error is not None:
            raise found.error(operation.also_wrong(call, given)) or error
        revisions = read_condition(operation, request.headers)
        return replace(call, revision=revisions[0], other_revisions=revisions[1:]) if revisions else call


@cache
def _repeatable() -> str:
    """Return which requests take an idempotency key."""
    names = (f"{each.method} {API_PREFIX}{each.route}" for each in OPERATIONS if each.repeatable)
    return f"A key is taken by {', '.join(names)}."


def _caller_of(operation: Operation) -> Callable[[Request], Principal]:
    """Return what says whose a request is, and refuses it by its caller alone, before it is read."""
    found = requires(operation.scope, REST_SURFACE)

    def caller(request: Request) -> Principal:
        by = found(request)
        if operation.for_operators:
            operator_only(by, operation.scope)
        return by

    return caller


def _endpoint(operation: Operation, parts: Callable[[], Installation]) -> Endpoint:
    caller, served = _caller_of(operation), _Served(operation, parts)

    async def answered(by: Principal, request: Request, body: bytes) -> RestAnswer:
        if operation.before_answer is None:
            return await cross(served.answered, by, request, body)
        call = await cross(served.read, by, request, body)
        await operation.before_answer(call)
        return await cross(operation.answer, call)

    async def outcome(request: Request) -> Response:
        try:
            by = caller(request)
            return _response(request, await answered(by, request, await _body(request)))
        except IllegalMove as error:
            return defect(operation.name, error)
        except DuetimeError as error:
            return problem(error, words_for(request.headers))
        except ClientDisconnect:
            raise
        except Exception as error:  # noqa: BLE001 - a defect must cost one request, not the server
            return defect(operation.name, error)

    return _observed(operation.name, operation.method, operation.route, parts, outcome)


def _observed(name: str, method: str, path: str, parts: Callable[[], Installation], outcome: Endpoint) -> Endpoint:
    """Return an endpoint of which each request is a span and is counted with the time until its answer began."""
    route = f"{API_PREFIX}{path}"

    async def endpoint(request: Request) -> Response:
        began = time.perf_counter()
        with parts().tracing.serving(method, route) as span:
            answer: Response = await outcome(request)
            span.answered(answer.status_code)
        observe(parts().observers, name, answer, time.perf_counter() - began)
        return answer

    return endpoint


async def _body(request: Request) -> bytes:
    try:
        return await request.body()
    except HTTPException as error:  # longer than a request may be
        raise Malformed(str(error.detail), HTTPStatus(error.status_code)) from None


def _response(request: Request, answer: RestAnswer) -> Response:
    headers = {"Cache-Control": "no-store"}  # who may see it is decided each time
    if answer.revision is not None:
        headers["ETag"] = f'"{answer.revision}"'
    if answer.cursor is not None:
        headers["Link"] = f'<{_next(request, answer.cursor)}>; rel="next"'
    if answer.location is not None:
        headers["Location"] = f"{API_PREFIX}{answer.location}"
    body = answer.payload.model_dump_json(by_alias=True, exclude_none=True)
    return Response(body, answer.status, headers, JSON_MEDIA_TYPE)


def _next(request: Request, cursor: str) -> str:
    """Return the address of the next page: the same list, behind the cursor."""
    kept = [(name, value) for name, value in request.query_params.multi_items() if name != "cursor"]
    return f"{request.url.path}?{urlencode([*kept, ('cursor', cursor)])}"


async def _not_served(request: Request, error: Exception) -> Response:
    """Answer what no operation serves; a path that others serve names their methods."""
    assert isinstance(error, HTTPException)
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        methods = ", ".join(_methods(request))
        text = f"The path has no such method. Accepted: {methods}; {_LISTS_ALL}"
        return not_served(error.status_code, text, {"Allow": methods})
    if error.status_code == HTTPStatus.NOT_FOUND:
        near = _nearest_path(request)
        return not_served(
            error.status_code, f"There is no such path{near and f'; did you mean {near}'}; {_LISTS_ALL}", {}
        )
    return not_served(error.status_code, str(error.detail), {})


def _nearest_path(request: Request) -> str:
    """Return the most similar path, whatever stands in the place of its arguments; empty if none is similar."""
    asked = request.url.path.removeprefix(API_PREFIX).rstrip("/").split("/")
    templates = {route.path: route.path.split("/") for route in request.app.routes}
    filled = {
        "/".join(given if part.startswith("{") else part for part, given in zip(parts, asked, strict=True)): path
        for path, parts in templates.items()
        if len(parts) == len(asked) and len(request.url.path) <= _MAX_COMPARED_CHARS
    }
    near = difflib.get_close_matches("/".join(asked), filled, n=1, cutoff=0.8)
    return f"{API_PREFIX}{filled[near[0]]}" if near else ""


def _methods(request: Request) -> list[str]:
    """Return the methods of the operations whose path is that of the request; a path without arguments goes first."""
    found = [route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE]
    exact = [route for route in found if "{" not in route.path] or found
    return sorted({method for route in exact for method in route.methods})
