"""One look: the document at a URL, or that a plug-in check returns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from functools import cached_property
from http import HTTPStatus
from http.client import responses
from importlib import import_module
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from duetime.scheduler.access.secret import SecretUnavailable
from duetime.scheduler.errors import DuetimeError, InvalidArgument
from duetime.scheduler.handlers.context import Context
from duetime.scheduler.handlers.http_request import HttpRequest
from duetime.scheduler.handlers.invocation import explain
from duetime.scheduler.handlers.watch.check import WatchCheck
from duetime.scheduler.handlers.watch.payload import WatchPayload
from duetime.scheduler.outbound.reply import PASSING_STATUSES, Blocked, Reply, Resolver, Unreachable
from duetime.scheduler.outbound.url_policy import WebhookOptions
from duetime.scheduler.rules.retry import retry_after
from duetime.scheduler.rules.sanitize import check_json
from duetime.scheduler.runtime.interrupt import TimeLimitReached
from duetime.scheduler.task import Json

if TYPE_CHECKING:
    from duetime.scheduler.outbound.client import GuardedClient

MAX_WATCHED_BYTES: Final = 1024 * 1024
MAX_TRANSIENT_ERRORS: Final = 10
"""Looks in a row without a value after which a watch fails, for reasons that may pass: no answer, HTTP 503."""

MAX_LASTING_ERRORS: Final = 3
"""The same for reasons that rarely pass: HTTP 404, an answer that the expression does not fit."""


class NoValue(DuetimeError):
    """A look without a value; as many as `tolerated` in a row fail the watch. `after` is the least time to wait."""

    def __init__(
        self, reason: str, *, tolerated: int = MAX_TRANSIENT_ERRORS, after: timedelta | None = None, status: int = 0
    ) -> None:
        self.tolerated = tolerated
        self.after = after
        self.status = status
        super().__init__(reason)


class Looker:
    """Reads documents within `options`; thread-safe."""

    def __init__(self, options: WebhookOptions, checks: Mapping[str, WatchCheck], resolve: Resolver) -> None:
        self._options = options
        self._checks = checks
        self._resolve = resolve

    @cached_property
    def _client(self) -> GuardedClient:
        """The client, loaded at the first request: a process that sends none starts sooner."""
        client: GuardedClient = import_module("duetime.scheduler.outbound.client").GuardedClient(
            self._options, resolve=self._resolve, max_bytes=MAX_WATCHED_BYTES + 1
        )
        return client

    def document(self, ctx: Context, payload: WatchPayload) -> Json:
        """Return what there is now: JSON, or text where an answer is none. Raises `NoValue`."""
        return self._checked(ctx, payload) if payload.check else self._answered(ctx, payload.request)

    def place(self, payload: WatchPayload) -> str:
        """Name what is looked at: a host, or a check."""
        return payload.check or urlsplit(payload.url or "").hostname or "its address"

    def lacks(self, ctx: Context, payload: WatchPayload) -> str | None:
        """Say which check, secret or setting a look needs that is not there by now; makes no request."""
        if not payload.check:
            return payload.request.lacks(ctx, self._options)
        there = f"there are {', '.join(sorted(self._checks))}" if self._checks else "there are none"
        return None if payload.check in self._checks else f"no check {payload.check!r} is installed; {there}"

    def _checked(self, ctx: Context, payload: WatchPayload) -> Json:
        check = self._checks[payload.check or ""]
        try:
            value = check(ctx, payload.arguments)
            check_json(f"check {check.name}", value, max_bytes=MAX_WATCHED_BYTES)
        except SecretUnavailable:
            raise
        except InvalidArgument as error:
            raise NoValue(str(error), tolerated=1) from error
        except TimeLimitReached as error:
            raise NoValue(f"check {check.name}: it reached the time limit of a look") from error
        except (Exception, SystemExit) as error:
            raise NoValue(f"check {check.name}: {explain(error)}") from error
        return value

    def _answered(self, ctx: Context, request: HttpRequest) -> Json:
        body, kind = request.encoded()
        headers = kind | request.named_headers(ctx, self._options)
        try:
            reply = self._client.send(request.method, request.url, headers=headers, body=body.encode())
        except Unreachable as error:
            raise NoValue(str(error)) from error
        except Blocked as error:
            raise NoValue(str(error), tolerated=1) from error
        if HTTPStatus.OK <= reply.status < HTTPStatus.MULTIPLE_CHOICES:
            return _document(reply)
        raise _refused(reply, f"{request.method} {request.host(self._options)}", ctx)


def _refused(reply: Reply, request: str, ctx: Context) -> NoValue:
    text = f"{request} answered {reply.status} {responses.get(reply.status, '')}".rstrip()
    passing = reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR or reply.status in PASSING_STATUSES
    return NoValue(
        text,
        tolerated=MAX_TRANSIENT_ERRORS if passing else MAX_LASTING_ERRORS,
        after=retry_after(reply.headers.get("retry-after"), now=ctx.now()),
        status=reply.status,
    )


def _document(reply: Reply) -> Json:
    if len(reply.body) > MAX_WATCHED_BYTES:
        raise NoValue("the answer is larger than 1 MiB", tolerated=MAX_LASTING_ERRORS)
    text = reply.body.decode("utf-8", "replace")
    try:
        document: Json = json.loads(text)
    except (ValueError, RecursionError):
        if _says_json(reply):
            raise NoValue("the answer says that it is JSON, and is not", tolerated=MAX_LASTING_ERRORS) from None
        return text
    return document


def _says_json(reply: Reply) -> bool:
    media_type = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    return media_type == "application/json" or media_type.endswith("+json")
