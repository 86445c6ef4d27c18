"""Fire addresses of tasks: made, once, and revoked. The address is in one answer alone."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Final, Literal

from duetime.server.rest.operation import Operation, RestAnswer, RestCall
from duetime.server.rest.resources.payloads import RestPayload
from duetime.tools.arguments.arguments import Argument
from duetime.tools.arguments.types import Flag
from duetime.tools.definition import TASK_ID
from pydantic import Field


class NewAddressPayload(RestPayload):
    """A new fire address: `path` is shown only once; `url` is the whole of it, where the server has its own."""

    schema_: Annotated[Literal["duetime.address/1"], Field(alias="schema")] = "duetime.address/1"
    task_id: str
    path: str
    url: str | None = None


class RevokedAddressPayload(RestPayload):
    """The end of a fire address; `revoked` is false for a task that had none."""

    schema_: Annotated[Literal["duetime.address_revoked/1"], Field(alias="schema")] = "duetime.address_revoked/1"
    task_id: str
    revoked: bool


def make(call: RestCall) -> RestAnswer:
    """Give a task a fire address."""
    made = call.scheduler.addresses.make(call.task_id, renew=call.values.get("renew", False), by=call.by)
    return RestAnswer(new_address(call.task_id, made.path, call.parts.settings.public_url), HTTPStatus.CREATED)


def new_address(task_id: str, path: str, public_url: str | None) -> NewAddressPayload:
    """Return a new address as data."""
    url = f"{str(public_url).rstrip('/')}{path}" if public_url else None
    return NewAddressPayload(task_id=task_id, path=path, url=url)


def revoke(call: RestCall) -> RestAnswer:
    """End the fire address of a task."""
    revoked = call.scheduler.addresses.revoke(call.task_id, by=call.by)
    return RestAnswer(RevokedAddressPayload(task_id=call.task_id, revoked=revoked))


OF_FIRE_ADDRESSES: Final = (
    Operation(
        "make_fire_address",
        "POST",
        "/tasks/{task_id}/address",
        "Give a task an address by which the world starts it; the answer alone has it",
        make,
        NewAddressPayload,
        in_path=(TASK_ID,),
        body=(Argument("renew", Flag(), "Replace the address that it has", "renew=true"),),
        created=True,
        statuses=(HTTPStatus.CONFLICT,),
    ),
    Operation(
        "revoke_fire_address",
        "POST",
        "/tasks/{task_id}/address/revoke",
        "End the address of a task at once",
        revoke,
        RevokedAddressPayload,
        in_path=(TASK_ID,),
        body=(),
    ),
)
