"""Opaque cursors of keyset pages, encrypted with a key of the database: each belongs to one list with its filters.

A cursor is the list that it belongs to and a position, encrypted and authenticated by AES-SIV (RFC 5297). Whoever has
no key can make none, and read none: the id of an event would tell how much other tenants do.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.database.server_keys import CURSOR_KEY, ServerKey

Position = Sequence[int | str]

_LIST_BYTES = 8
_STEP_BYTES = 22
"""Cursors are padded to a multiple of this, so that their length does not reveal how large the numbers in them are."""

_UNREADABLE = (
    "this server cannot read this cursor; it may be of another server, or older than a restored backup. "
    "Begin at the first page: list again without a cursor"
)


class Cursors:
    """Writes and reads the cursors of one database. Each process reads its key once."""

    def __init__(self, database: Database) -> None:
        self._key = ServerKey(database, CURSOR_KEY)

    def write(self, position: Position, *, of: object) -> str:
        """Return the cursor after `position` in the list that `of` describes: its tenant and its filters."""
        key = self._key.get()
        body = _list(key, of) + json.dumps(list(position), separators=(",", ":")).encode()
        padded = body + b" " * (-len(body) % _STEP_BYTES)
        return base64.urlsafe_b64encode(_cipher(key).encrypt(padded, None)).decode().rstrip("=")

    def read(self, cursor: str | None, *, of: object) -> list[int | str]:
        """Return the position of a cursor, [] of None.

        Raises InvalidArgument for a cursor of another database, or of another list.
        """
        if not cursor:
            return []
        body = self._opened(cursor)
        if not hmac.compare_digest(body[:_LIST_BYTES], _list(self._key.get(), of)):
            raise InvalidArgument(
                "cursor", "this cursor was made with other filters; repeat those, or list again without a cursor"
            )
        position: list[int | str] = json.loads(body[_LIST_BYTES:])
        return position

    def _opened(self, cursor: str) -> bytes:
        """Return what is encrypted; the key is read again for a strange cursor, since it may have been replaced."""
        raw = _decoded(cursor)
        wrong = import_module("cryptography.exceptions").InvalidTag
        for key in (self._key.get, self._key.read):
            with suppress(wrong, ValueError):
                body: bytes = _cipher(key()).decrypt(raw, None)
                return body
        raise InvalidArgument("cursor", _UNREADABLE)


def _cipher(key: bytes) -> Any:
    aead = import_module("cryptography.hazmat.primitives.ciphers.aead")  # few processes ever need it
    return aead.AESSIV(key)


def _decoded(cursor: str) -> bytes:
    try:
        return base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return b""


def _list(key: bytes, of: object) -> bytes:
    return hmac.digest(key, repr(of).encode(errors="backslashreplace"), "sha256")[:_LIST_BYTES]
