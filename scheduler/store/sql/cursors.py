"""Opaque cursors of keyset pages, sealed with a key of the database: each belongs to one list with its filters.

A cursor is a seal (HMAC), the list that it belongs to, and a position. Whoever has no key can make none.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
from collections.abc import Sequence

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.sql.server_keys import ServerKey

Position = Sequence[int | str]

_SEAL_BYTES = 16
_LIST_BYTES = 8


class Cursors:
    """Writes and reads the cursors of one database. Its key is made at first use, and read once by each process."""

    def __init__(self, database: Database) -> None:
        self._key = ServerKey(database, "cursors")

    def write(self, position: Position, *, of: object) -> str:
        """Return the cursor after `position` in the list that `of` describes: its tenant and its filters."""
        key = self._key.get()
        body = _list(key, of) + json.dumps(list(position), separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(_seal(key, body) + body).decode().rstrip("=")

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
        """Return what is sealed; the key is read again for a strange seal, since it may have been replaced."""
        raw = _decoded(cursor)
        seal, body = raw[:_SEAL_BYTES], raw[_SEAL_BYTES:]
        if not hmac.compare_digest(seal, _seal(self._key.get(), body)):
            self._key.read()
        if not (body and hmac.compare_digest(seal, _seal(self._key.get(), body))):
            raise InvalidArgument("cursor", "this cursor is not from this server; list again without a cursor")
        return body


def _decoded(cursor: str) -> bytes:
    try:
        return base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return b""


def _seal(key: bytes, body: bytes) -> bytes:
    return hmac.digest(key, body, "sha256")[:_SEAL_BYTES]


def _list(key: bytes, of: object) -> bytes:
    return hmac.digest(key, repr(of).encode(errors="backslashreplace"), "sha256")[:_LIST_BYTES]
