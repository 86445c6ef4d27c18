"""A request that a payload describes: its checks when a task is scheduled, its secrets, and what is sent."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from duetime.scheduler.access.secret import (
    SecretUnavailable,
    SecretUse,
    places_of_references,
    references,
    url_names_secret,
)
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.handlers.context import Context
from duetime.scheduler.outbound.headers import JSON_MEDIA_TYPE, header_problems, with_secrets
from duetime.scheduler.outbound.url_policy import WebhookOptions, check_url
from duetime.scheduler.task import RetryPolicy

NETWORK_RETRY: Final = RetryPolicy(max_attempts=10)
"""Default retry policy: tries for about a quarter of an hour, because a server may be down for minutes."""

MAX_URL_CHARS_SAID: Final = 100


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """An object or list as `body` is sent as JSON, a text unchanged, and as JSON if it is an object's."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None

    def problems(self, options: WebhookOptions) -> Iterator[InvalidArgument]:
        """Check all that needs no name server: the URL, the headers, the body of a GET."""
        try:
            check_url("payload.url", self.url, options)
        except InvalidArgument as problem:
            yield problem
        if self.method == "GET" and self.body is not None:
            accepted = "POST or PUT with a body"
            yield InvalidArgument(
                "payload.body", "a GET request has no body", accepted=accepted, example="method='POST'"
            )
        for name, value in self.headers.items():
            yield from header_problems("payload.headers", name, value)
        for place in self._unread_references():
            yield InvalidArgument(
                place,
                "names a secret, and secrets are read in headers only",
                accepted="`secret:name` in a value of payload.headers; a body that means these very words, as text",
                example='headers={"Authorization": "Bearer secret:stripe-key"}',
            )

    def secrets(self, options: WebhookOptions) -> Iterator[SecretUse]:
        """Yield the secrets that the headers name."""
        host = self.host(options)
        for header, value in self.headers.items():
            for name in references(value):
                yield SecretUse(f"payload.headers.{header}", name, host)

    def host(self, options: WebhookOptions) -> str:
        """Return the host that is asked; raises `InvalidArgument` for a URL that the options refuse."""
        return check_url("payload.url", self.url, options).host

    def named_headers(self, ctx: Context, options: WebhookOptions) -> dict[str, str]:
        """Return its own headers with the values of secrets; raises `SecretUnavailable`."""
        host = self.host(options)
        return with_secrets(self.headers, lambda name: ctx.secret(name, host=host))

    def lacks(self, ctx: Context, options: WebhookOptions) -> str | None:
        """Say why it cannot be sent by now, though it could when it was scheduled; None if it can. Sends nothing."""
        try:
            self.named_headers(ctx, options)
        except InvalidArgument as problem:
            return f"requests to {self.url[:MAX_URL_CHARS_SAID]} are refused now: {problem.problem}"
        except SecretUnavailable as problem:
            return str(problem)
        return None

    def encoded(self) -> tuple[str, dict[str, str]]:
        """Return the body as text, and the header that names its type."""
        if self.body is None:
            return "", {}
        if isinstance(self.body, str):
            return self.body, {"content-type": JSON_MEDIA_TYPE if _is_json(self.body) else "text/plain; charset=utf-8"}
        return json.dumps(self.body, ensure_ascii=False, separators=(",", ":")), {"content-type": JSON_MEDIA_TYPE}

    def _unread_references(self) -> Iterator[str]:
        if url_names_secret(self.url):
            yield "payload.url"
        if not isinstance(self.body, str):
            yield from places_of_references("payload.body", self.body)


def _is_json(text: str) -> bool:
    """Whether a text is a JSON object or list, as clients write one where only a text is allowed."""
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
