"""Opaque cursors of keyset pages, sealed with a key of the database: each belongs to one list with its filters.

A cursor is a seal (HMAC), the list that it belongs to, and a position. Whoever has no key can make none.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import secrets
from collections.abc import Mapping, Sequence

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.schema.pool_tables import server_keys
from sqlalchemy import Connection, select

Position = Sequence[int | str]

_NAME = "cursors"
_KEY_BYTES = 32
_SEAL_BYTES = 16
_LIST_BYTES = 8
_STORED = select(server_keys.c.key).where(server_keys.c.name == _NAME)


class Cursors:
    """Writes and reads the cursors of one database. Its key is made at first use, and read once by each process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._key = b""

    def write(self, position: Position, *, of: object) -> str:
        """Return the cursor after `position` in the list that `of` describes: its tenant and its filters."""
        self._key = self._key or self._stored()
        body = _list(self._key, of) + json.dumps(list(position), separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(_seal(self._key, body) + body).decode().rstrip("=")

    def read(self, cursor: str | None, *, of: object) -> list[int | str]:
        """Return the position of a cursor, [] of None.

        Raises InvalidArgument for a cursor of another database, or of another list.
        """
        if not cursor:
            return []
        body = self._opened(cursor)
        if not hmac.compare_digest(body[:_LIST_BYTES], _list(self._key, of)):
            raise InvalidArgument(
                "cursor", "this cursor was made with other filters; repeat those, or list again without a cursor"
            )
        position: list[int | str] = json.loads(body[_LIST_BYTES:])
        return position

    def _opened(self, cursor: str) -> bytes:
        """Return what is sealed; the key is read again for a strange seal, since it may have been replaced."""
        raw = _decoded(cursor)
        seal, body = raw[:_SEAL_BYTES], raw[_SEAL_BYTES:]
        if not (self._key and hmac.compare_digest(seal, _seal(self._key, body))):
            self._key = self._stored()
        if not (body and hmac.compare_digest(seal, _seal(self._key, body))):
            raise InvalidArgument("cursor", "this cursor is not from this server; list again without a cursor")
        return body

    def _stored(self) -> bytes:
        """Return the key of the database; of processes that make it at once, all get the first one."""
        found = self._database.look(_found)
        if found is None:
            made = {"name": _NAME, "key": secrets.token_hex(_KEY_BYTES)}
            self._database.write(lambda connection: _store(connection, made))
            found = self._database.look(_found)
        assert found is not None
        return bytes.fromhex(found)


def _found(connection: Connection) -> str | None:
    found: str | None = connection.execute(_STORED).scalar()
    return found


def _store(connection: Connection, made: Mapping[str, str]) -> None:
    connection.execute(dialect_of(connection).insert(server_keys).on_conflict_do_nothing(), made)


def _decoded(cursor: str) -> bytes:
    try:
        return base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return b""


def _seal(key: bytes, body: bytes) -> bytes:
    return hmac.digest(key, body, "sha256")[:_SEAL_BYTES]


def _list(key: bytes, of: object) -> bytes:
    return hmac.digest(key, repr(of).encode(errors="backslashreplace"), "sha256")[:_LIST_BYTES]
