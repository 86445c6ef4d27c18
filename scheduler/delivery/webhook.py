"""Delivers outcomes by a signed POST to a configured address."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from http import HTTPStatus
from importlib import import_module
from typing import TYPE_CHECKING, Final

from duetime.scheduler.access.secret import REFERENCE_PREFIX, SecretUnavailable
from duetime.scheduler.delivery.channel import ChannelError
from duetime.scheduler.delivery.message_json import message_json
from duetime.scheduler.outbound.headers import with_secrets
from duetime.scheduler.outbound.reply import Blocked, Reply, Unreachable
from duetime.scheduler.outbound.signature import Signer
from duetime.scheduler.outbound.url_policy import WebhookOptions
from duetime.scheduler.rules.retry import retry_after
from duetime.scheduler.runtime.secret_mask import masked, secrets_masked
from duetime.scheduler.task import InboxMessage

if TYPE_CHECKING:
    from duetime.scheduler.outbound.client import GuardedClient

WEBHOOK_PREFIX: Final = "webhook:"
_PASSING: Final = frozenset({408, 425, 429})


@dataclass(frozen=True, slots=True)
class WebhookTarget:
    """The address, the `whsec_...` secret of the signature, and headers; the last two may name secrets."""

    url: str
    secret: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


class WebhookChannel:
    """Posts `{"type": "task.succeeded", "timestamp": ..., "data": {...}}`, signed by Standard Webhooks.

    An administrator sets the address, so it may be private or plain http; redirects are not followed. `reveal` puts
    the secrets that a text names in their places. Raises `InvalidSetting` for a malformed secret.
    """

    def __init__(
        self,
        name: str,
        target: WebhookTarget,
        *,
        timeout: float = 20.0,
        reveal: Callable[[str], str] = str,
        prefix: str = WEBHOOK_PREFIX,
    ) -> None:
        self.name = f"{prefix}{name}"
        self._url = target.url
        self._headers = target.headers
        self._reveal = reveal
        self._signer = Signer(target.secret, reveal)
        self._options = WebhookOptions(allow_http=True, allow_private=True, timeout=timeout)

    @cached_property
    def _client(self) -> GuardedClient:
        """The client, loaded at the first delivery: a process that delivers nothing starts sooner."""
        client: GuardedClient = import_module("duetime.scheduler.outbound.client").GuardedClient(self._options)
        return client

    def send(self, message: InboxMessage, *, key: str) -> None:
        """Post the message; any status but 2xx raises `ChannelError`, permanent when the request itself was refused."""
        with secrets_masked():
            self._send(message, key)

    def _send(self, message: InboxMessage, key: str) -> None:
        now = datetime.now(UTC)
        body = json.dumps(message_json(message), ensure_ascii=False, separators=(",", ":"))
        try:
            headers = self._headers_of(key, now, body)
        except SecretUnavailable as error:
            raise ChannelError(str(error), permanent=True) from None
        try:
            reply = self._client.send("POST", self._url, headers=headers, body=body.encode())
        except Unreachable as error:
            raise ChannelError(masked(str(error))) from error
        except Blocked as error:
            raise ChannelError(masked(str(error)), permanent=True) from error
        _judge(reply, now)

    def _headers_of(self, key: str, now: datetime, body: str) -> dict[str, str]:
        # A task's own webhook call carries the run id too, perhaps to the same receiver: the two ids must differ.
        own = {"content-type": "application/json", "idempotency-key": f"{key}-outcome"}
        named = with_secrets(self._headers, lambda name: self._reveal(f"{REFERENCE_PREFIX}{name}"))
        return named | self._signer.headers(f"{key}-outcome", now, body) | own

    def close(self) -> None:
        """Nothing to do: no connection outlives a send."""


def _judge(reply: Reply, now: datetime) -> None:
    if HTTPStatus.OK <= reply.status < HTTPStatus.MULTIPLE_CHOICES:
        return
    passing = reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR or reply.status in _PASSING
    wait = retry_after(reply.headers.get("retry-after"), now=now)
    raise ChannelError(f"the receiver answered {reply.status}", retry_after=wait, permanent=not passing)
