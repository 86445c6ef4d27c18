"""The OpenAPI document: operations as FastAPI writes them, with the arguments, headers and problems of the table."""

from __future__ import annotations

import ast
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from duetime.scheduler.outbound.headers import JSON_MEDIA_TYPE
from duetime.scheduler.principal import Scope
from duetime.scheduler.task import Json
from duetime.server.rest.operation import Operation
from duetime.server.rest.problem import PROBLEM_TYPE, ProblemDetails, title_of
from duetime.server.rest.request_arguments import CONDITION_HEADER, KEY_HEADER, KEY_PATTERN
from duetime.tools.arguments.arguments import Argument, Arguments
from duetime.version import __version__
from starlette.requests import Request
from starlette.responses import Response

if TYPE_CHECKING:
    from fastapi import FastAPI

DOCUMENT_PATH: Final = "/openapi.json"
ABOUT: Final = """\
Schedules reminders and work, and runs them on time. Times are the user's own words ("tomorrow 9am") or ISO 8601; the \
server understands them by its own clock and reports how it read them. Readers have to ignore members that they do \
not know. Problems are `application/problem+json`; a request that the server could not answer can be repeated with the \
same `Idempotency-Key`: nothing happens twice."""

_WORDS: Final[dict[str, Json]] = {"true": True, "false": False}
_TEXT: Final = {"type": "string"}
_EVERYWHERE: Final = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.MISDIRECTED_REQUEST,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.SERVICE_UNAVAILABLE,
)
_OF_BODIES: Final = (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
_CHALLENGE: Final[dict[str, Any]] = {
    "WWW-Authenticate": {"description": "What is wrong with the token, or which one is needed", "schema": _TEXT}
}
_WAIT: Final[dict[str, Any]] = {
    "Retry-After": {"description": "Repeat the request after this many seconds", "schema": {"type": "integer"}}
}
_SENT_WITH: Final[dict[HTTPStatus, dict[str, Any]]] = {
    HTTPStatus.UNAUTHORIZED: {"headers": _CHALLENGE},
    HTTPStatus.FORBIDDEN: {"headers": _CHALLENGE},
    HTTPStatus.TOO_MANY_REQUESTS: {"headers": _WAIT},
    HTTPStatus.SERVICE_UNAVAILABLE: {"headers": _WAIT},
}
_KEY: Final[dict[str, Any]] = {
    "name": KEY_HEADER,
    "in": "header",
    "schema": {**_TEXT, "pattern": KEY_PATTERN},
    "description": "Repeating a request with the same key changes nothing, and says so",
}
_CONDITION: Final[dict[str, Any]] = {
    "name": CONDITION_HEADER,
    "in": "header",
    "schema": _TEXT,
    "description": "The ETag of what is changed: refuse with 412 if it has another one by now",
}


def written(prefix: str, add_all: Callable[[FastAPI], None]) -> dict[str, Any]:
    """Return the document of what `add_all` adds to an API: FastAPI writes it, and serves none of it."""
    from fastapi import FastAPI  # noqa: PLC0415 - it takes a fifth of a server's start, and only the document needs it
    from fastapi.openapi.utils import get_openapi  # noqa: PLC0415 - likewise

    api = FastAPI()
    add_all(api)
    made = get_openapi(title="Duetime", version=__version__, description=ABOUT, routes=api.routes)
    made["servers"] = [{"url": prefix}]
    components = made.setdefault("components", {})
    components.setdefault("schemas", {})[ProblemDetails.__name__] = ProblemDetails.model_json_schema()
    components["schemas"] = _open(components["schemas"])
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    return made


def _open(schema: Any) -> Any:
    """Leave out the ban of members that a schema does not name: answers gain some within a version."""
    if isinstance(schema, list):
        return [_open(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    banned = schema.get("additionalProperties") is False
    return {key: _open(part) for key, part in schema.items() if not (banned and key == "additionalProperties")}


def unserved() -> Callable[[Request], Awaitable[Response]]:
    """Return what stands where FastAPI wants an endpoint: its docstring would be in the document, so it has none."""

    async def endpoint(request: Request) -> Response:
        raise NotImplementedError(request.url.path)

    return endpoint


def add(api: FastAPI, operation: Operation) -> None:
    """Add an operation with all that its table says."""
    api.add_api_route(
        operation.path,
        unserved(),
        methods=[operation.method],
        operation_id=operation.name,
        summary=operation.summary,
        tags=[operation.tag],
        response_model=operation.model,
        responses=_responses(operation),
        openapi_extra=_extra(operation),
        name=operation.name,
    )


def _responses(operation: Operation) -> dict[int | str, dict[str, Any]]:
    answered = {"description": "The answer", "headers": _headers(operation)}
    created = {"description": "It was created", "headers": {**_headers(operation), "Location": _header("Its address")}}
    found: dict[int | str, dict[str, Any]] = {HTTPStatus.OK.value: answered}
    if operation.created:
        found[HTTPStatus.CREATED.value] = {"model": operation.model, **created}
    of_body = _OF_BODIES if operation.body is not None else ()
    return {**found, **problems(*of_body, *operation.statuses, *_implied(operation))}


def problems(*others: HTTPStatus) -> dict[int | str, dict[str, Any]]:
    """Return the problems that any request may be answered with, and the others."""
    schema = {"$ref": f"#/components/schemas/{ProblemDetails.__name__}"}
    return {
        status.value: {
            "description": title_of(status),
            "content": {PROBLEM_TYPE: {"schema": schema}},
            **_SENT_WITH.get(status, {}),
        }
        for status in sorted({*_EVERYWHERE, *others})
    }


def scope_of(scope: Scope) -> list[dict[str, list[str]]]:
    """Return which token a request needs."""
    return [{"token": [scope.value]}]


def _implied(operation: Operation) -> Iterator[HTTPStatus]:
    if operation.in_path:
        yield HTTPStatus.NOT_FOUND
    if operation.conditional:
        yield from (HTTPStatus.PRECONDITION_FAILED, HTTPStatus.CONFLICT)


def _headers(operation: Operation) -> dict[str, Json]:
    paged = {"Link": _header('The next page as rel="next" (RFC 8288); absent on the last one')}
    revision = {"ETag": _header("The revision of the task or the pool, or the version of the policy")}
    has_tag = operation.conditional or operation.tagged
    return {**(paged if operation.paged else {}), **(revision if has_tag else {})}


def _header(about: str) -> dict[str, Json]:
    return {"description": about, "schema": _TEXT}


def _extra(operation: Operation) -> dict[str, Any]:
    extra: dict[str, Any] = {"security": scope_of(operation.scope)}
    if parameters := list(_parameters(operation)):
        extra["parameters"] = parameters
    if operation.body is not None:
        schema = _with_examples(Arguments(operation.name, operation.body))
        extra["requestBody"] = {"content": {JSON_MEDIA_TYPE: {"schema": schema}}, "required": "required" in schema}
    return extra


def _with_examples(table: Arguments) -> dict[str, Any]:
    """Return the schema of a body, with an example of each argument that has one."""
    schema = table.schema()
    shown = {name: {**schema["properties"][name], **_example(argument)} for name, argument in table.table.items()}
    return {**schema, "properties": shown}


def _example(argument: Argument) -> dict[str, Json]:
    """Return the example of an argument, which the tools show as it is passed to one."""
    text = argument.example.removeprefix(f"{argument.name}=")
    found = _WORDS.get(text, argument.example)
    with suppress(ValueError, SyntaxError):
        found = ast.literal_eval(text)
    return {"examples": [found]} if text else {}


def _parameters(operation: Operation) -> Iterator[dict[str, Json]]:
    for argument in operation.in_path:
        yield _parameter("path", argument)
    for argument in operation.in_query:
        yield _parameter("query", argument)
    yield from (_KEY,) if operation.repeatable else ()
    yield from (_CONDITION,) if operation.conditional else ()


def _parameter(place: str, argument: Argument) -> dict[str, Json]:
    about = {"description": argument.about} if argument.about else {}
    required = {"required": True} if argument.required or place == "path" else {}
    return {
        "name": argument.name,
        "in": place,
        **required,
        "schema": {**argument.kind.schema(), **_example(argument)},
        **about,
    }
