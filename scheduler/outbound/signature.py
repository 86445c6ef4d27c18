"""Signatures of outgoing messages, by Standard Webhooks."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Final

from duetime.scheduler.access.secret import SecretUnavailable, references
from duetime.scheduler.errors import InvalidSetting

if TYPE_CHECKING:
    from standardwebhooks import Webhook

_PREFIX: Final = "whsec_"
SECRET_BYTES: Final = 24


class Signer:
    """Signs messages with one or more secrets (`whsec_...`, separated by blanks: the new one first while rotating).

    Without a secret the messages carry their id and time, but no signature. A secret that is named (`secret:signing`)
    is read by `reveal` for each message. Raises `InvalidSetting` for one that is not the base64 of at least 24 bytes;
    the message never shows it.
    """

    def __init__(self, secret: str | None, reveal: Callable[[str], str] = str) -> None:
        self._secret = secret or ""
        self._reveal = reveal
        self._named = next(references(self._secret), None)
        self._keys = () if self._named is not None else _keys(self._secret)

    def headers(self, message_id: str, at: datetime, body: str) -> dict[str, str]:
        """Return the headers of a message that is sent `at` a time in UTC.

        `message_id` is the same for every try, so that the receiver recognises a retry. Raises `SecretUnavailable` when
        a secret that is named cannot be read, or cannot sign.
        """
        signatures = [key.sign(message_id, at, body) for key in self._current_keys()]
        signed = {"webhook-signature": " ".join(signatures)} if signatures else {}
        return {"webhook-id": message_id, "webhook-timestamp": str(int(at.timestamp()))} | signed

    def _current_keys(self) -> tuple[Webhook, ...]:
        if self._named is None:
            return self._keys
        try:
            return _keys(self._reveal(self._secret))
        except InvalidSetting:
            raise SecretUnavailable(
                self._named, "it cannot sign, as it is not `whsec_` and 24 bytes in base64"
            ) from None


def _keys(secrets: str) -> tuple[Webhook, ...]:
    return tuple(_key(part) for part in secrets.split())


def _key(secret: str) -> Webhook:
    from standardwebhooks import Webhook  # noqa: PLC0415 - a first answer does not wait for it where nothing is signed

    return Webhook(_checked(secret))


def _checked(secret: str) -> str:
    text = secret.removeprefix(_PREFIX)
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) < SECRET_BYTES:
        raise InvalidSetting(
            "webhook secret: is not a Standard Webhooks secret. "
            f"Accepted: whsec_ and {SECRET_BYTES} or more bytes in base64 (`openssl rand -base64 32` generates them)."
        )
    return secret
