"""`/v1/fire/<token>`: the world starts one task. The address is the right to do so; no bearer token is asked for."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from duetime.scheduler.errors import DuetimeError, IllegalMove, Refused, UnreadableTask
from duetime.scheduler.outbound.headers import JSON_MEDIA_TYPE
from duetime.scheduler.waits.fire_address import Fired, NoSuchAddress
from duetime.server.auth.call_limits import CallLimits, TooManyCalls
from duetime.server.rest.openapi import problems, unserved
from duetime.server.rest.operation import Installation
from duetime.server.rest.problem import Malformed, defect, not_served, problem
from duetime.server.rest.request_arguments import KEY_HEADER, json_of
from duetime.server.rest.request_record import observe
from duetime.server.rest.resources.payloads import RestPayload
from duetime.tools.threads import cross
from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

if TYPE_CHECKING:
    from fastapi import FastAPI

FIRE_OPERATION: Final = "fire"
FIRE_PATH: Final = "/fire/{token:path}"
_PLAIN_PATH: Final = "/fire/{token}"
_ROUTE: Final = f"/v1{_PLAIN_PATH}"
"""The name of the route for spans and metrics, which never contain the path of a request."""

MAX_FIRE_BODY_BYTES: Final = 65_536
MAX_CALLS_OF_ADDRESS = 60
"""Calls that one address may get in a minute."""

MAX_CALLS_OF_CLIENT = 300
"""Calls that come from one network address in a minute, whatever they call."""

KEY_HEADERS: Final = (KEY_HEADER, "Webhook-Id")
_TASK_ID: Final = re.compile(r"\bt_[0-9a-z]{12}\b")
_UNKNOWN: Final = str(NoSuchAddress())


class FiredPayload(RestPayload):
    """The answer to a call of a fire address. `repeated`: the id was known, and nothing was done."""

    schema_: Annotated[Literal["duetime.fired/1"], Field(alias="schema")] = "duetime.fired/1"
    event_id: str
    repeated: bool


class _Fire:
    """Answers calls of fire addresses; this process counts them."""

    def __init__(self, parts: Callable[[], Installation]) -> None:
        self._parts = parts
        self._of_clients, self._of_addresses = CallLimits(MAX_CALLS_OF_CLIENT), CallLimits(MAX_CALLS_OF_ADDRESS)

    async def __call__(self, request: Request) -> Response:
        began = time.perf_counter()
        with self._parts().tracing.serving("POST", _ROUTE) as span:
            answer = await self._answered(request)
            span.answered(answer.status_code)
        observe(self._parts().observers, FIRE_OPERATION, answer, time.perf_counter() - began)
        return answer

    async def _answered(self, request: Request) -> Response:
        try:
            return _response(await self._fired(request))
        except NoSuchAddress:
            return not_served(HTTPStatus.NOT_FOUND, _UNKNOWN)
        except TooManyCalls as refused:
            text = f"There are too many calls. Nothing was done; repeat the call in {refused.wait_s} s."
            headers = {"Retry-After": str(refused.wait_s)}
            return not_served(HTTPStatus.TOO_MANY_REQUESTS, text, headers, code=refused.code)
        except IllegalMove as error:
            return defect(FIRE_OPERATION, error)
        except DuetimeError as error:
            return _refusal(error)
        except ClientDisconnect:
            raise
        except Exception as error:  # noqa: BLE001 - a defect must cost one request, not the server
            return defect(FIRE_OPERATION, error)

    async def _fired(self, request: Request) -> Fired:
        """Read a call; whether there is the address is known first, so that nothing else depends on what it says."""
        client = request.client.host if request.client else "-"
        self._of_clients.take(client)
        scheduler = self._parts().scheduler
        address = await cross(scheduler.addresses.find, request.path_params["token"])
        self._of_addresses.take(address.id)
        data = _read(await _body(request))
        key = next((value for name in KEY_HEADERS if (value := request.headers.get(name))), None) or _id_of(data)
        return await cross(scheduler.addresses.fire, address, data, event_id=key, via=f"rest {client}")


async def _body(request: Request) -> bytes:
    body = b""
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_FIRE_BODY_BYTES:
                break
    except HTTPException as error:  # longer than any request may be
        raise Malformed(str(error.detail), HTTPStatus(error.status_code)) from None
    if len(body) > MAX_FIRE_BODY_BYTES:
        raise Malformed(
            f"The body may have {MAX_FIRE_BODY_BYTES:,} bytes at most.", HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        )
    return body


def _read(body: bytes) -> Any:
    """Return the data of a call, whatever the type that its sender gives it; none without a body."""
    return json_of(body) if body.strip() else {}


def _refusal(error: DuetimeError) -> Response:
    """Say what is wrong, or why a task does not start, to a sender that may call this address and nothing else."""
    if not isinstance(error, Refused | UnreadableTask):
        return problem(error)
    message = _TASK_ID.sub("the task", error.message)
    text = f"{message[0].upper()}{message[1:]} Nothing was done; repeat the call later."
    return not_served(HTTPStatus.CONFLICT, text, code=error.code)


def _id_of(data: Any) -> str | None:
    found = data.get("event_id") if isinstance(data, dict) else None
    return found if isinstance(found, str) and found else None


def _response(fired: Fired) -> Response:
    payload = FiredPayload(event_id=fired.event_id, repeated=fired.repeated)
    return Response(payload.model_dump_json(by_alias=True), 200, {"Cache-Control": "no-store"}, JSON_MEDIA_TYPE)


def fire_endpoint(parts: Callable[[], Installation]) -> Callable[[Request], Any]:
    """Return the endpoint of all fire addresses."""
    fire = _Fire(parts)

    async def endpoint(request: Request) -> Response:
        return await fire(request)

    return endpoint


def document_fire(api: FastAPI) -> None:
    """Add the addresses to the API whose document is written."""
    more = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    found = problems(*more)
    api.add_api_route(
        _PLAIN_PATH,
        unserved(),
        methods=["POST"],
        name=FIRE_OPERATION,
        operation_id=FIRE_OPERATION,
        summary="Start the one task whose address this is; a call with a known id does nothing",
        tags=["tasks"],
        response_model=FiredPayload,
        responses={status: answer for status, answer in found.items() if status != HTTPStatus.UNAUTHORIZED},
        openapi_extra={
            "security": [],
            "parameters": [
                {"name": "token", "in": "path", "required": True, "schema": {"type": "string"}},
                *({"name": name, "in": "header", "schema": {"type": "string"}} for name in KEY_HEADERS),
            ],
            "requestBody": {"content": {JSON_MEDIA_TYPE: {"schema": {"type": "object"}}}},
        },
    )
