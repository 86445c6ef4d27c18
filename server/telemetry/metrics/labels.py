"""Values of labels: bounded in number, and never a word of a user. A tenant is named only where a setting says so."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

OTHER_LABEL: Final = "other"
PRIVATE_FAMILIES: Final = frozenset({"tenant", "key"})
"""Pools such as `tenant:acme` and `key:customer-42` are named for a tenant or for a customer of one."""


class BoundedNames:
    """The first `limit` distinct names, `known` ones first; every further name becomes `other`.

    Each process takes the same names first, so that it calls the same ones `other`. Two threads may pass the limit
    by one name together.
    """

    def __init__(self, limit: int, known: Iterable[str] = ()) -> None:
        self._limit = limit
        self._names = set(sorted(known)[:limit])

    def __call__(self, name: str) -> str:
        if name not in self._names:
            if len(self._names) >= self._limit:
                return OTHER_LABEL
            self._names.add(name)
        return name


class PoolNames:
    """The names of pools: declared ones as they are, members of a template as the template, others as `other`."""

    def __init__(self, limit: int, *, declared: Callable[[], Collection[str]], tenants: Collection[str] = ()) -> None:
        self._bounded = BoundedNames(limit)
        self._declared = declared
        self._named = {f"tenant:{tenant}" for tenant in tenants}

    def __call__(self, pool: str) -> str:
        if pool in self._named:
            return self._bounded(pool)
        family, colon, _ = pool.partition(":")
        if colon and family in PRIVATE_FAMILIES:
            return f"{family}:*"
        declared = self._declared()
        known = next((name for name in (pool, f"{family}:*") if name in declared), OTHER_LABEL)
        return known if known == OTHER_LABEL else self._bounded(known)
