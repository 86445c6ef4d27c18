"""Encrypts numbers that callers hand back: to read one, such as the id of an event, would tell of other tenants."""

from __future__ import annotations

import base64
import binascii
import secrets
from contextlib import suppress
from importlib import import_module
from typing import Any

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.database.server_keys import PLACE_KEY, ServerKey

_NONCE_BYTES = 12
_NUMBER_BYTES = 8


class HiddenNumbers:
    """Numbers, each bound to whom it was given, encrypted with a key of the database."""

    def __init__(self, database: Database) -> None:
        self._key = ServerKey(database, PLACE_KEY)

    def hide(self, number: int, whose: str) -> str:
        """Return an encrypted number; each call returns another text."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        hidden = _cipher(self._key.get()).encrypt(nonce, number.to_bytes(_NUMBER_BYTES), whose.encode())
        return base64.urlsafe_b64encode(nonce + hidden).decode().rstrip("=")

    def reveal(self, text: str, whose: str) -> int:
        """Return the number. Raises InvalidArgument for what this database gave to nobody, or to somebody else."""
        raw = _decoded(text)
        wrong = import_module("cryptography.exceptions").InvalidTag
        for read in (self._key.get, self._key.read):  # it may have been replaced
            with suppress(wrong, ValueError):
                return int.from_bytes(_cipher(read()).decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], whose.encode()))
        raise InvalidArgument("cursor", "this server cannot read this cursor, or gave it to somebody else")


def _cipher(key: bytes) -> Any:
    aead = import_module("cryptography.hazmat.primitives.ciphers.aead")  # few processes ever need it
    return aead.AESGCM(key)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return b""
