"""The result of a verification of an audit chain."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Break:
    """The first entry of a chain that is not as it was sealed: its number in the chain, and what is wrong."""

    entry: int
    wrong: str


@dataclass(frozen=True, slots=True)
class ChainVerdict:
    """The state of one tenant's chain up to its head, `hash`.

    `checked` entries were compared with their rows, `removed` ones were deleted by retention, which recorded that.
    `pending` rows are not sealed yet. `unkeyed` entries were sealed before there was a key.
    """

    tenant: str
    entries: int
    hash: str
    checked: int = 0
    removed: int = 0
    pending: int = 0
    unkeyed: int = 0
    broken: Break | None = None


@dataclass(frozen=True, slots=True)
class KeptHead:
    """A head that was kept elsewhere: the hash of a tenant's chain when it had so many entries."""

    tenant: str
    entries: int
    hash: str
