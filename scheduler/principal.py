"""The principal: the caller in whose name a call acts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller. `user` is recorded as the actor of every change; `tenant` bounds what can be seen at all."""

    tenant: str = "local"
    user: str = "local"
    scopes: frozenset[str] = frozenset()


LOCAL = Principal()
"""The one user of an embedded Duetime."""
