"""Problems: the answers of requests that failed, as RFC 9457 has them, in the words of the tools and below 1 KiB."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from http import HTTPStatus
from secrets import token_hex
from typing import Any, Final

from duetime.scheduler.dispatch.policy_registry import StalePolicy
from duetime.scheduler.errors import (
    MAX_REFUSAL_BYTES,
    DuetimeError,
    IdempotencyConflict,
    InvalidArgument,
    InvalidArguments,
    StaleRevision,
    cut_to_bytes,
)
from duetime.scheduler.quotas import RateReached
from duetime.scheduler.remedies import ErrorWords
from duetime.scheduler.store.pools import StalePool
from duetime.scheduler.task import Json
from duetime.server.auth.access import RETRY_AFTER_S, AccessRefused
from duetime.server.words.rest_words import REST_WORDS
from duetime.widgets.text.history_text import retold
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

PROBLEM_TYPE: Final = "application/problem+json"
PROBLEM_URN: Final = "urn:duetime:problem:"

_STATUSES: Final[Mapping[str, HTTPStatus]] = {
    "not_found": HTTPStatus.NOT_FOUND,
    "unreadable": HTTPStatus.CONFLICT,
    "refused": HTTPStatus.CONFLICT,
    "stale_revision": HTTPStatus.PRECONDITION_FAILED,
    "idempotency_conflict": HTTPStatus.UNPROCESSABLE_ENTITY,
    "invalid_argument": HTTPStatus.UNPROCESSABLE_ENTITY,
    "store_unavailable": HTTPStatus.SERVICE_UNAVAILABLE,
    "server_busy": HTTPStatus.SERVICE_UNAVAILABLE,
    "schema_too_new": HTTPStatus.SERVICE_UNAVAILABLE,
    "schema_too_old": HTTPStatus.SERVICE_UNAVAILABLE,
}
_TITLES: Final[Mapping[HTTPStatus, str]] = {
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "Content Too Large",
    HTTPStatus.UNPROCESSABLE_ENTITY: "Unprocessable Content",
}
"""The phrases of RFC 9110 where Python had older ones."""

_CUT_BYTES = 16
"""Bytes by which the detail of a problem is cut until the whole of it fits: JSON writes some characters longer."""

log = logging.getLogger(__name__)


STALE: Final = (StaleRevision, StalePolicy, StalePool)
"""Refusals of what is based on an older revision; each says which is the present one."""


class ProblemDetails(BaseModel):
    """Why a request failed: `detail` says what is wrong, what is accepted, and what to do.

    `code` is the stable name of the kind of problem, and `argument` names what is wrong. `revision` is the task's
    present one where the request was based on an older one. `error_id` is that of a defect in the log of the server.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: str = Field(examples=[f"{PROBLEM_URN}not_found"])
    title: str
    status: int
    detail: str
    code: str
    argument: str | None = None
    revision: int | None = None
    error_id: str | None = None


class Problem(Response):
    """The answer to a request that was refused; `code` is the stable name of the kind of problem."""

    def __init__(self, code: str, content: bytes, status: HTTPStatus, headers: Mapping[str, str]) -> None:
        super().__init__(content, status, headers, PROBLEM_TYPE)
        self.code = code


class Malformed(DuetimeError):
    """The request is not as the document says; `status` is more exact than the one of its code."""

    code = "malformed"

    def __init__(self, message: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST, *, argument: str = "") -> None:
        self.status = status
        super().__init__(message, argument=argument)


class ForeignTag(DuetimeError):
    """A condition names only tags that this server gives to nothing, so that it never holds."""

    code = "stale_revision"

    def __init__(self, message: str, argument: str) -> None:
        super().__init__(message, argument=argument)


class Unfit(InvalidArguments):
    """Arguments do not fit the schema of the document."""

    status = HTTPStatus.BAD_REQUEST


def title_of(status: HTTPStatus) -> str:
    """Return the phrase of a status, the same on each version of Python."""
    return _TITLES.get(status, status.phrase)


def status_of(error: DuetimeError) -> HTTPStatus:
    """Return the status of the answer to a request that failed so."""
    if isinstance(error, RateReached):
        return HTTPStatus.TOO_MANY_REQUESTS
    own = getattr(error, "status", None)
    return own if isinstance(own, HTTPStatus) else _STATUSES.get(error.code, HTTPStatus.INTERNAL_SERVER_ERROR)


def problem(error: DuetimeError, words: ErrorWords = REST_WORDS) -> Response:
    """Answer a request that was refused."""
    status, headers = status_of(error), dict[str, str]()
    if isinstance(error, AccessRefused):
        return _answer(status, error.error, str(error), headers=error.headers)
    if isinstance(error, RateReached):
        headers["Retry-After"] = str(math.ceil(error.wait_s))
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = str(RETRY_AFTER_S)
    reworded = retold(error)
    return _answer(status, error.code, reworded.text_in(words), headers=headers, **_members(error))


def defect(operation: str, error: Exception) -> Response:
    """Admit a defect of ours, with an id under which the log has the exception."""
    number = f"e_{token_hex(4)}"
    log.error("defect %s in %s", number, operation, exc_info=error)
    text = (
        f"Duetime could not do this because of a defect of its own (error id {number}, its log has the details). "
        "Nothing is wrong with the request; GET /v1/tasks shows whether it had an effect."
    )
    return _answer(HTTPStatus.INTERNAL_SERVER_ERROR, "defect", text, error_id=number)


def not_served(status: int, detail: str, headers: Mapping[str, str] | None = None, *, code: str = "") -> Response:
    """Answer a request to no route, or by no method of one; without a code its name is that of the status."""
    return _answer(HTTPStatus(status), code or _code_of(HTTPStatus(status)), detail, headers=headers)


def _code_of(status: HTTPStatus) -> str:
    return Malformed.code if status is HTTPStatus.REQUEST_ENTITY_TOO_LARGE else status.name.lower()


def _members(error: DuetimeError) -> dict[str, Json]:
    if isinstance(error, STALE):
        return {"revision": error.current}
    one = isinstance(error, InvalidArgument | Malformed | ForeignTag | IdempotencyConflict) and error.argument
    return {"argument": cut_to_bytes(error.argument, 100)} if one else {}


def _answer(
    status: HTTPStatus, code: str, detail: str, *, headers: Mapping[str, str] | None = None, **members: Json
) -> Response:
    body = {
        "type": f"{PROBLEM_URN}{code}",
        "title": title_of(status),
        "status": status.value,
        "detail": detail,
        "code": code,
        **members,
    }
    return Problem(code, _bounded(body), status, {**(headers or {}), "Cache-Control": "no-store"})


def _bounded(body: dict[str, Any]) -> bytes:
    """Write a problem with its detail cut until it has at most as many bytes as a refusal may."""
    encoded = _encoded(body)
    while len(encoded) > MAX_REFUSAL_BYTES:
        room = len(body["detail"].encode("utf-8", "replace")) - max(_CUT_BYTES, math.ceil(_excess(encoded) / 6))
        body["detail"] = cut_to_bytes(body["detail"], room)
        encoded = _encoded(body)
    return encoded


def _excess(encoded: bytes) -> int:
    return len(encoded) - MAX_REFUSAL_BYTES


def _encoded(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
