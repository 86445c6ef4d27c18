"""The action `webhook`: one signed HTTP request, at its time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from functools import cached_property
from http import HTTPStatus
from http.client import responses
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal

from duetime.scheduler.access.secret import SecretUse, places_of_references, references, url_names_secret
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.handlers.context import Context
from duetime.scheduler.handlers.declaration import Handler
from duetime.scheduler.outbound.headers import MAX_HEADERS, header_problems, with_secrets
from duetime.scheduler.outbound.reply import Blocked, Reply, Resolver, Unreachable, system_resolver
from duetime.scheduler.outbound.signature import Signer
from duetime.scheduler.outbound.url_policy import WebhookOptions, check_url
from duetime.scheduler.outcomes import Done, Failed, Outcome, Retry
from duetime.scheduler.rules.retry import retry_after
from duetime.scheduler.rules.sanitize import clean_text
from duetime.scheduler.runtime.secret_mask import masked
from duetime.scheduler.task import Json, RetryPolicy
from pydantic import BaseModel, Field

if TYPE_CHECKING:
    from duetime.scheduler.outbound.client import GuardedClient

MAX_EXCERPT_CHARS: Final = 2000
JSON_TYPE: Final = "application/json"
PATIENT: Final = RetryPolicy(max_attempts=10)
"""Default retry policy: tries for about a quarter of an hour, because a server may be down for minutes."""

_PASSING = frozenset({408, 425, 429})


class WebhookPayload(BaseModel):
    """The request: an object or list as `body` is sent as JSON, a text unchanged, and as JSON if it is an object's."""

    url: str = Field(description="a public https URL", examples=["https://example.com/hook"])
    method: Literal["POST", "GET", "PUT"] = Field(default="POST", description="POST, GET or PUT")
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
        name="webhook",
        fn=work.run,
        payload_model=WebhookPayload,
        time_limit=timedelta(seconds=work.options.timeout + 10),
        description="Send a signed HTTP request.",
        verify=work.verify,
        secrets=work.secrets,
        retry=PATIENT,
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
        try:
            check_url("payload.url", payload.url, self.options)
        except InvalidArgument as problem:
            yield problem
        if payload.method == "GET" and payload.body is not None:
            yield InvalidArgument("payload.body", "a GET request has no body", accepted="POST or PUT with a body")
        for name, value in payload.headers.items():
            yield from header_problems("payload.headers", name, value)
        for place in _unread_references(payload):
            yield InvalidArgument(
                place,
                "names a secret, and secrets are read in headers only",
                accepted="`secret:name` in a value of payload.headers; a body that means these very words, as text",
                example='headers={"Authorization": "Bearer secret:stripe-key"}',
            )

    def secrets(self, payload: WebhookPayload) -> Iterator[SecretUse]:
        """Yield the secrets that the headers name."""
        host = self._host(payload)
        for header, value in payload.headers.items():
            for name in references(value):
                yield SecretUse(f"payload.headers.{header}", name, host)

    def run(self, ctx: Context, payload: WebhookPayload) -> Outcome:
        """Send the request once and return the outcome of its answer."""
        body, kind = _encoded(payload.body)
        host = self._host(payload)
        named = with_secrets(payload.headers, lambda name: ctx.secret(name, host=host))
        headers = kind | named | self._identity(ctx, body)
        try:
            reply = self._client.send(payload.method, payload.url, headers=headers, body=body.encode())
        except Unreachable as error:
            return Retry(str(error))
        except Blocked as error:
            return Failed(str(error))
        return _outcome(reply, f"{payload.method} {host}", ctx)

    def _host(self, payload: WebhookPayload) -> str:
        return check_url("payload.url", payload.url, self.options).host

    def _identity(self, ctx: Context, body: str) -> dict[str, str]:
        signed = self._signer.headers(ctx.run_id, ctx.now(), body)
        return signed | {"idempotency-key": ctx.idempotency_key}


def _unread_references(payload: WebhookPayload) -> Iterator[str]:
    if url_names_secret(payload.url):
        yield "payload.url"
    if not isinstance(payload.body, str):
        yield from places_of_references("payload.body", payload.body)


def _encoded(body: Any) -> tuple[str, dict[str, str]]:
    if body is None:
        return "", {}
    if isinstance(body, str):
        return body, {"content-type": JSON_TYPE if _is_json(body) else "text/plain; charset=utf-8"}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")), {"content-type": JSON_TYPE}


def _is_json(text: str) -> bool:
    """Whether a text is a JSON object or list, as clients write one where only a text is allowed."""
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _outcome(reply: Reply, request: str, ctx: Context) -> Outcome:
    said = f"{request} answered {reply.status} {responses.get(reply.status, '')}".rstrip()
    body = clean_text(masked(reply.body.decode("utf-8", "replace")), MAX_EXCERPT_CHARS)
    result: dict[str, Json] = {"status": reply.status, "body": body}
    if HTTPStatus.OK <= reply.status < HTTPStatus.MULTIPLE_CHOICES:
        return Done(said, result)
    if reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR or reply.status in _PASSING:
        return Retry(said, retry_after(reply.headers.get("retry-after"), now=ctx.now()), result)
    return Failed(said, result)
