"""Locks of the names of signals, by which a wait and a signal of the same moment see each other.

A signal has its name alone, any number of transactions that store waits share it. It comes before the locks of tasks.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.schema.values import storable
from sqlalchemy import Connection


def lock(connection: Connection, tenant: str, name: str) -> None:
    """Lock the name of a signal that is sent."""
    dialect_of(connection).wait_for_lock(connection, _id_of(tenant, name))


def share(connection: Connection, names: Iterable[tuple[str, str]]) -> None:
    """Lock the names for which waits are to be stored, each with its tenant, before any other row."""
    for name in sorted(set(names)):
        dialect_of(connection).wait_for_lock(connection, _id_of(*name), shared=True)


def share_late(connection: Connection, names: Iterable[tuple[str, str]]) -> None:
    """Lock names like `share`, although tasks are locked: where one is sent now, the transaction begins again."""
    for name in sorted(set(names)):
        dialect_of(connection).share_lock(connection, _id_of(*name))


def _id_of(tenant: str, name: str) -> int:
    digest = blake2b(storable(f"signal\n{tenant}\n{name}").encode(), digest_size=8).digest()
    return int.from_bytes(digest, signed=True)
