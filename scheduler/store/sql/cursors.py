"""Opaque cursors of keyset pages: each belongs to one list of one tenant with one filter, and others refuse it."""

from __future__ import annotations

import base64
import binascii
import json
from hashlib import blake2b

from duetime.scheduler.errors import InvalidArgument

_SEAL_BYTES = 9


def write(position: list[int | str], *, of: object) -> str:
    """Return the cursor after `position` in the list that `of` describes."""
    body = json.dumps(position, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(_seal(body, of) + body).decode().rstrip("=")


def read(cursor: str, *, of: object) -> list[int | str]:
    """Return the position; raises `InvalidArgument` for a cursor of another list."""
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    seal, body = raw[:_SEAL_BYTES], raw[_SEAL_BYTES:]
    if not body or seal != _seal(body, of):
        raise InvalidArgument(
            "cursor",
            "it does not belong to this list",
            accepted="the cursor that the page before gave, with the same filters; leave it out for the first page",
        )
    position: list[int | str] = json.loads(body)
    return position


def _seal(body: bytes, of: object) -> bytes:
    return blake2b(body + repr(of).encode(errors="replace"), digest_size=_SEAL_BYTES).digest()
