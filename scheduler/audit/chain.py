"""The hash chain of a tenant: segments of entries, each with the hash of the segment before it.

An entry of the chain is the number of an event or of an audit entry, and the digest of its content. A segment holds
some hundred bytes however many columns its entries have. Whoever later changes, deletes, adds or moves an entry has to
rebuild every later segment; with a key (HMAC) he cannot.
"""

from __future__ import annotations

import hmac
import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from hashlib import sha256
from typing import Any, NamedTuple

from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.remedies import ListChains

GENESIS = "0" * 64
"""Stands for the hash before the first segment."""

KEY_ID_CHARS = 16

_ENTRY = struct.Struct(">Bq32s")
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=bytes.hex).encode


class ChainNotFound(DuetimeError):
    """Nothing of this tenant was ever recorded, or somebody deleted all of it."""

    code = "not_found"

    def __init__(self, tenant: str) -> None:
        super().__init__(
            f"no audit chain of {tenant[:80]!r}: nothing of this tenant was ever recorded, or all of it was deleted.",
            argument="tenant",
            remedy=ListChains(),
        )


class Source(IntEnum):
    """The table of a row in the chain."""

    EVENT = 0
    ENTRY = 1  # of the audit log

    @property
    def noun(self) -> str:
        return "event" if self is Source.EVENT else "audit entry"


class SealedRow(NamedTuple):
    """A row as the chain has it."""

    source: int
    row_id: int
    digest: bytes


def digest(content: Sequence[Any]) -> bytes:
    """Return the digest of a row's values: the same on each database and in an archive."""
    return sha256(_encode(content).encode()).digest()


def packed(rows: Sequence[SealedRow]) -> bytes:
    return b"".join(_ENTRY.pack(*row) for row in rows)


def unpacked(entries: bytes) -> Iterator[SealedRow]:
    """Return the rows of a segment; raises ValueError where the bytes are no whole entries."""
    if len(entries) % _ENTRY.size:
        raise ValueError("its entries are cut off")
    return map(SealedRow._make, _ENTRY.iter_unpack(entries))


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a tenant's chain. `first` is the number of its first entry; `key_id` names the key that sealed it.

    No event of it is older than `oldest_at`; without one that is not known.
    """

    tenant: str
    number: int
    first: int
    count: int
    sealed_at: datetime
    entries: bytes
    key_id: str | None
    previous: str
    hash: str
    oldest_at: datetime | None = None

    @property
    def last(self) -> int:
        """The number of its last entry."""
        return self.first + self.count - 1


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a tenant's chain: how many segments and entries it has, and the hash of the last segment."""

    tenant: str
    segments: int = 0
    entries: int = 0
    hash: str = GENESIS
    key_id: str | None = None


class AuditKeys:
    """The secrets that seal the chains, the newest first: it seals, all verify. Without one a hash is SHA-256 alone."""

    def __init__(self, secrets: Sequence[str] = ()) -> None:
        self._secrets = {_key_id(secret): secret.encode() for secret in secrets}
        self.newest = next(iter(self._secrets), None)
        """The name of the key that seals, None without one."""

    def __bool__(self) -> bool:
        return self.newest is not None

    def __contains__(self, key_id: str | None) -> bool:
        return key_id is None or key_id in self._secrets

    def seal(self, content: Sequence[Any], key_id: str | None) -> str:
        """Return the hash of the content by this key; raises KeyError for an unknown one."""
        text = _encode(content).encode()
        if key_id is None:
            return sha256(text).hexdigest()
        return hmac.new(self._secrets[key_id], text, "sha256").hexdigest()


def segment_hash(segment: Segment, keys: AuditKeys) -> str:
    """Return the hash that a segment should have."""
    content = (
        *(segment.tenant, segment.number, segment.first, segment.count, segment.sealed_at.isoformat()),
        *(sha256(segment.entries).hexdigest(), segment.previous),
        *(() if segment.oldest_at is None else (segment.oldest_at.isoformat(),)),
    )
    return keys.seal(content, segment.key_id)


def _key_id(secret: str) -> str:
    return sha256(b"duetime audit key " + secret.encode()).hexdigest()[:KEY_ID_CHARS]
