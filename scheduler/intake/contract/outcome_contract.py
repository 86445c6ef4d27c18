"""The outcome contract of a task: what its result has to meet, and what follows where a run fails or does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypedDict

from duetime.scheduler.delivery import Channels
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.handlers.contract.expectation import EXAMPLE, check_expect
from duetime.scheduler.origin.origin import NO_ORIGIN, read_origin, unread
from duetime.scheduler.request import Request
from duetime.scheduler.rules.sanitize import check_json, kind_of
from duetime.scheduler.rules.settlement import NOTIFY
from duetime.scheduler.task import Json


class ContractParts(TypedDict):
    """The fields of a task that its contract makes."""

    expect: Mapping[str, Json]
    on_failure: Mapping[str, Json]
    origin: Mapping[str, str]


MAX_CONTRACT_BYTES: Final = 16 * 1024
_EXAMPLE: Final = '{"notify": "team"}'


def check_expected(request: Request, handlers: Handlers) -> None:
    """Refuse an expectation that cannot be checked."""
    if request.expect:
        _check_object("expect", request.expect, EXAMPLE)
        check_expect(request.expect, handlers.webhooks)


def follow_up_of(request: Request, channels: Channels) -> Mapping[str, Json]:
    """Return what follows from a failure; raises InvalidArgument for what cannot, and for an unknown channel."""
    asked = request.on_failure or {}
    _check_object("on_failure", asked, _EXAMPLE)
    unknown = next((name for name in asked if name != NOTIFY), None)
    if unknown is not None:
        problem = f"has no member {str(unknown)[:40]!r}"
        raise InvalidArgument("on_failure", problem, accepted=f"an object of {NOTIFY}", example=_EXAMPLE)
    return {NOTIFY: _channel(asked[NOTIFY], channels, unread(request.origin))} if asked else {}


def contract_of(request: Request, channels: Channels) -> ContractParts:
    """Return the parts of a task that its contract makes."""
    return {"expect": request.expect or {}, "on_failure": follow_up_of(request, channels), "origin": origin_of(request)}


def origin_of(request: Request) -> Mapping[str, str]:
    """Return the origin of a task; raises InvalidArgument for one that is none."""
    return read_origin(request.origin) if request.origin is not None else NO_ORIGIN


def _check_object(argument: str, given: object, example: str) -> None:
    if not isinstance(given, Mapping):
        raise InvalidArgument(argument, f"expected an object, got {kind_of(given)}", example=example)
    check_json(argument, given, max_bytes=MAX_CONTRACT_BYTES)


def _channel(name: Json, channels: Channels, origin: Mapping[str, str]) -> str:
    if not isinstance(name, str):
        raise InvalidArgument("on_failure.notify", "is not a text", accepted="a channel", example=_EXAMPLE)
    try:
        found = channels.check((name,), origin)
    except InvalidArgument as error:
        raise InvalidArgument("on_failure.notify", error.problem, accepted=error.accepted) from None
    if not found:
        raise InvalidArgument("on_failure.notify", "the inbox has every outcome", accepted="another channel")
    return found[0]
