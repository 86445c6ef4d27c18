"""The action `webhook`: one signed HTTP request, at its time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from functools import cached_property
from http import HTTPStatus
from http.client import responses
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from duetime.scheduler.access.secret import SecretUse
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.handlers.context import Context
from duetime.scheduler.handlers.declaration import Handler
from duetime.scheduler.handlers.http_request import NETWORK_RETRY, HttpRequest
from duetime.scheduler.outbound.headers import MAX_HEADERS, header_text
from duetime.scheduler.outbound.reply import PASSING_STATUSES, Blocked, Reply, Resolver, Unreachable, system_resolver
from duetime.scheduler.outbound.signature import Signer
from duetime.scheduler.outbound.target import WEBHOOK
from duetime.scheduler.outbound.url_policy import WebhookOptions
from duetime.scheduler.outcomes import Done, Failed, Outcome, Retry
from duetime.scheduler.rules.retry import retry_after
from duetime.scheduler.rules.sanitize import clean_text
from duetime.scheduler.runtime.secret_mask import masked
from duetime.scheduler.task import Json
from pydantic import BaseModel, BeforeValidator, Field

if TYPE_CHECKING:
    from duetime.scheduler.outbound.client import GuardedClient

MAX_EXCERPT_CHARS: Final = 2000


def _in_capitals(given: object) -> object:
    return given.upper() if isinstance(given, str) else given


class WebhookPayload(BaseModel):
    """The request: an object or list as `body` is sent as JSON, a text unchanged, and as JSON if it is an object's."""

    url: str = Field(description="a public https URL", examples=["https://example.com/hook"])
    method: Annotated[Literal["POST", "GET", "PUT"], BeforeValidator(_in_capitals)] = Field(
        default="POST", description="POST, GET or PUT"
    )
    body: Any = Field(default=None, description="JSON, or text; not with GET")
    headers: dict[str, str] = Field(
        default_factory=dict,
        max_length=MAX_HEADERS,
        description=f"at most {MAX_HEADERS} names and values; `secret:name` for a secret",
    )


def webhook(options: WebhookOptions | None = None, *, resolve: Resolver = system_resolver) -> Handler:
    """Build the handler; raises `InvalidSetting` for a malformed secret."""
    work = _Webhook(options or WebhookOptions(), resolve)
    return Handler(
        name=WEBHOOK,
        fn=work.run,
        payload_model=WebhookPayload,
        time_limit=timedelta(seconds=work.options.timeout + 10),
        description="Send a signed HTTP request.",
        verify=work.verify,
        secrets=work.secrets,
        retry=NETWORK_RETRY,
        preflight=work.lacks,
        checked_early=False,
    )


class _Webhook:
    def __init__(self, options: WebhookOptions, resolve: Resolver) -> None:
        self.options = options
        self._resolve = resolve
        self._signer = Signer(options.secret, options.reveal)

    @cached_property
    def _client(self) -> GuardedClient:
        """The client, loaded at the first request: a process that sends none starts sooner."""
        client: GuardedClient = import_module("duetime.scheduler.outbound.client").GuardedClient(
            self.options, resolve=self._resolve
        )
        return client

    def verify(self, payload: WebhookPayload) -> Iterator[InvalidArgument]:
        """Check all that needs no name server: the URL, the headers, the body of a GET."""
        yield from _request(payload).problems(self.options)

    def secrets(self, payload: WebhookPayload) -> Iterator[SecretUse]:
        """Yield the secrets that the headers name."""
        yield from _request(payload).secrets(self.options)

    def lacks(self, ctx: Context, payload: WebhookPayload) -> str | None:
        """Say which secret or setting is missing, without a request. Raises SecretUnavailable for the signature's."""
        self._signer.headers(ctx.run_id, ctx.now(), "")
        return _request(payload).lacks(ctx, self.options)

    def run(self, ctx: Context, payload: WebhookPayload) -> Outcome:
        """Send the request once and return the outcome of its answer."""
        request = _request(payload)
        body, kind = request.encoded()
        headers = kind | request.named_headers(ctx, self.options) | self._identity(ctx, body)
        try:
            reply = self._client.send(payload.method, payload.url, headers=headers, body=body.encode())
        except Unreachable as error:
            return Retry(str(error))
        except Blocked as error:
            return Failed(str(error))
        return _outcome(reply, f"{payload.method} {request.host(self.options)}", ctx)

    def _identity(self, ctx: Context, body: str) -> dict[str, str]:
        signed = self._signer.headers(ctx.run_id, ctx.now(), body)
        return signed | {"idempotency-key": header_text(ctx.idempotency_key)}


def _request(payload: WebhookPayload) -> HttpRequest:
    return HttpRequest(payload.method, payload.url, payload.headers, payload.body)


def _outcome(reply: Reply, request: str, ctx: Context) -> Outcome:
    text = f"{request} answered {reply.status} {responses.get(reply.status, '')}".rstrip()
    body = clean_text(masked(reply.body.decode("utf-8", "replace")), MAX_EXCERPT_CHARS)
    result: dict[str, Json] = {"status": reply.status, "body": body}
    if HTTPStatus.OK <= reply.status < HTTPStatus.MULTIPLE_CHOICES:
        return Done(text, result)
    if reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR or reply.status in PASSING_STATUSES:
        return Retry(text, retry_after(reply.headers.get("retry-after"), now=ctx.now()), result)
    return Failed(text, result)
