"""Pools as they were declared: by configuration at a start, and by admins at any time.

A row outlives its pool, so that revisions only rise, and so that a pool which an admin removed stays removed when the
next start declares it again. Writers take turns.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime

from duetime.scheduler.records import StoredPool
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.schema.pool_tables import POOL_REVISION, pools
from duetime.scheduler.store.schema.rows import columns_of
from duetime.scheduler.store.schema.types import encode
from duetime.scheduler.task import Json
from sqlalchemy import Connection, bindparam, func, insert, select, update

Spec = Mapping[str, Json]

CONFIGURATION = "configuration"
"""The actor of a change to a pool that a start declared."""

_COLUMNS = columns_of(StoredPool, pools)
_ALL = select(*_COLUMNS).order_by(pools.c.name)
_ONE = _ALL.where(pools.c.name == bindparam("pool"))
_THERE = pools.c.spec.is_not(None)
_TURN = 0x706F6F6C  # "pool"


class Pools:
    """The limits of an installation; they are the same for all tenants."""

    def __init__(self, database: Database, now: Callable[[], datetime]) -> None:
        self._database = database
        self._now = now
        self.on_change: Callable[[], None] = lambda: None
        """Called when whoever looks what is due sees a change, on his thread: so nobody else has to ask often."""
        self._seen: int | None = None

    def see(self, revision: int) -> None:
        """Hear which revision of the pools is the newest."""
        if revision != self._seen:
            self._seen = revision
            self.on_change()

    def all(self) -> list[StoredPool]:
        """Return the pools that there are, by name."""
        statement = _ALL.where(_THERE)
        return self._database.read(lambda connection: [StoredPool(*row) for row in connection.execute(statement)])

    def removed(self) -> set[str]:
        """Return the names of the pools that there were once."""
        statement = select(pools.c.name).where(pools.c.spec.is_(None))
        return self._database.read(lambda connection: set(connection.execute(statement).scalars()))

    def revision(self) -> int:
        """Return a number that rises with each change of a pool; 0 before the first."""
        return self._database.look(_revision)

    def put(self, name: str, spec: Spec, *, actor: str) -> StoredPool:
        """Create or replace a pool. One that is the same already keeps its revision."""

        def work(connection: Connection) -> StoredPool:
            self._write(connection, name, spec=_as_stored(spec), actor=actor)
            return StoredPool(*connection.execute(_ONE, {"pool": name}).one())

        return self._database.write(work)

    def remove(self, name: str, *, actor: str) -> bool:
        """Remove a pool; False when it was not there. Declaring it unchanged does not bring it back."""
        return self._database.write(lambda connection: self._write(connection, name, spec=None, actor=actor))

    def declare(self, specs: Mapping[str, Spec]) -> list[str]:
        """Apply what configuration declares where that differs from what it declared last time; returns those names.

        What an admin changed since therefore stays until configuration itself says something else. A pool that is no
        longer declared is removed.
        """
        wanted = {name: _as_stored(spec) for name, spec in specs.items()}

        def work(connection: Connection) -> list[str]:
            _take_turn(connection)
            last = _declared(connection)
            changed = sorted(name for name in {*last, *wanted} if last.get(name) != wanted.get(name))
            for name in changed:
                spec = wanted.get(name)
                self._write(connection, name, spec=spec, actor=CONFIGURATION)
                connection.execute(update(pools).where(pools.c.name == name).values(declared=spec))
            return changed

        return [] if self._database.read(_declared) == wanted else self._database.write(work)

    def _write(self, connection: Connection, name: str, *, spec: Spec | None, actor: str) -> bool:
        """Store what a pool is from now on, None for nothing; False when it was that already."""
        _take_turn(connection)
        found = connection.execute(_ONE, {"pool": name}).first()
        if (found.spec if found else None) == spec:
            return False
        revision = _revision(connection) + 1
        values = {"spec": spec, "revision": revision, "updated_at": self._now(), "updated_by": actor}
        if found:
            connection.execute(update(pools).where(pools.c.name == name).values(values))
        else:
            connection.execute(insert(pools).values(name=name, **values))
        return True


def _revision(connection: Connection) -> int:
    newest: int = connection.execute(POOL_REVISION).scalar_one()
    return newest


def _declared(connection: Connection) -> dict[str, Spec]:
    return {row.name: row.declared for row in connection.execute(_ALL) if row.declared is not None}


def _as_stored(spec: Spec) -> Spec:
    """Return the declaration as it comes back from the database, so that the two can be compared."""
    found: Spec = json.loads(encode(spec))
    return found


def _take_turn(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_TURN)))
