"""Answers for what went wrong: a sentence for what a caller can mend, a plain page for a defect."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from html import escape
from http import HTTPStatus

from duetime.scheduler.errors import DuetimeError
from duetime.server.admin.answers import Page
from duetime.server.admin.assets import asset_url
from duetime.server.admin.protection import protected
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

_STATUS = {
    "not_found": HTTPStatus.NOT_FOUND,
    "scope_missing": HTTPStatus.FORBIDDEN,
    "foreign_form": HTTPStatus.FORBIDDEN,
    "invalid_argument": HTTPStatus.BAD_REQUEST,
    "invalid_arguments": HTTPStatus.BAD_REQUEST,
    "store_unavailable": HTTPStatus.SERVICE_UNAVAILABLE,
}
_DEFECT = "This page could not be made. The log of the server says why."

log = logging.getLogger(__name__)

AdminEndpoint = Callable[[Request], Awaitable[Response]]


def problem(error: DuetimeError) -> Page:
    """Return the page that says what is wrong."""
    status = status_of(error)
    return Page("problem.html", status.phrase, {"sentence": str(error), "status": status.value}, status)


def status_of(error: DuetimeError) -> HTTPStatus:
    return _STATUS.get(error.code, HTTPStatus.CONFLICT)


def shielded(endpoint: AdminEndpoint) -> AdminEndpoint:
    """Return the endpoint, whose exceptions become answers with the headers of every other answer."""

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except DuetimeError as error:
            return _plain(str(error), status_of(error))
        except Exception:
            log.exception("%s %s failed", request.method, request.scope["path"])
            return _plain(_DEFECT, HTTPStatus.INTERNAL_SERVER_ERROR)

    return answer


def _plain(sentence: str, status: HTTPStatus) -> Response:
    page = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{status.phrase} · Duetime</title>'
        '<meta name="viewport" content="width=device-width">'
        f'<link rel="stylesheet" href="{asset_url("admin.css")}"></head>'
        f'<body><main><h1>{status.phrase}</h1><p class="said problem" role="alert">{escape(sentence)}</p>'
        f'<p><a href="/admin">Overview</a></p></main></body></html>'
    )
    return protected(HTMLResponse(page, status))
