"""Declared pools: by configuration at a start, and by admins at any time.

A row outlives its pool. So revisions only rise, and a pool that an admin removed stays removed when the next start
declares it again. Writers take turns.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime

from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.records import StoredPool
from duetime.scheduler.rules.limits.pool import LIMIT_PARTS
from duetime.scheduler.store.audit import entries
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.schema.rows import columns_of
from duetime.scheduler.store.schema.tables.pools import POOL_REVISION, pools
from duetime.scheduler.store.schema.values import encode
from duetime.scheduler.task import Json
from sqlalchemy import Connection, bindparam, insert, select, update

Spec = Mapping[str, Json]

_COLUMNS = columns_of(StoredPool, pools)
_ALL = select(*_COLUMNS).order_by(pools.c.name)
_ONE = _ALL.where(pools.c.name == bindparam("pool"))
_THERE = pools.c.spec.is_not(None)
_CHANGE_LOCK_ID = 0x706F6F6C  # "pool"


class PoolNotFound(DuetimeError):
    """No pool of this name is declared or used."""

    code = "not_found"

    def __init__(self, name: str) -> None:
        super().__init__(f"no pool {name[:100]!r}. The list of pools shows them all.", argument="name")


class StalePool(DuetimeError):
    """A pool is at another revision than the one that a change is based on; nothing was changed.

    `current` is its revision, 0 where there is no such pool.
    """

    code = "stale_revision"

    def __init__(self, name: str, given: int, current: int) -> None:
        self.current = current
        shown = name[:100]
        stands = f"pool {shown!r} is at revision {current}, not {given}" if current else f"there is no pool {shown!r}"
        again = f"Read it and repeat the call for revision {current}." if current else "Revision 0 makes a new one."
        super().__init__(f"{stands}; nothing was changed. {again}", argument="revision")


class Pools:
    """The pools of an installation, shared by all tenants."""

    def __init__(self, database: Database, now: Callable[[], datetime]) -> None:
        self._database = database
        self._now = now
        self.on_change: Callable[[], None] = lambda: None
        """Called when the thread that looks for due runs sees a new revision, so that no other loop has to poll."""
        self._seen: int | None = None

    def see(self, revision: int) -> None:
        """Note the newest revision of the pools and of the policy."""
        if revision != self._seen:
            self._seen = revision
            self.on_change()

    def all(self) -> list[StoredPool]:
        """Return the existing pools by name."""
        statement = _ALL.where(_THERE)
        return self._database.look(
            lambda connection: [StoredPool(*row) for row in unreadable.rows(connection, statement)]
        )

    def removed(self) -> set[str]:
        """Return the names of removed pools."""
        statement = select(pools.c.name).where(pools.c.spec.is_(None))
        return self._database.look(lambda connection: set(connection.execute(statement).scalars()))

    def revision(self) -> int:
        """Return a number that rises with each change of a pool; 0 before the first."""
        return self._database.look(_revision)

    def get(self, name: str) -> StoredPool | None:
        """Return an existing pool."""
        return self._database.look(lambda connection: _existing(connection, name))

    def put(self, name: str, spec: Spec, act: AuditEntry, *, based_on: int | None = None) -> StoredPool:
        """Create or replace a pool, with the audit entry of the act. An unchanged pool keeps its revision.

        Raises StalePool unless it is at the revision that the act is `based_on`, where it names one; 0 is for no pool.
        """

        def work(connection: Connection) -> StoredPool:
            self._record(connection, name, _as_stored(spec), act, based_on)
            [(stored, _)] = unreadable.values(connection, _ONE, StoredPool, _COLUMNS, {"pool": name})
            return stored

        return self._database.write(work)

    def remove(self, name: str, act: AuditEntry, *, based_on: int | None = None) -> bool:
        """Remove a pool, with the audit entry of the act; False when it did not exist.

        An unchanged declaration does not restore it. Raises StalePool as `put` does.
        """
        return self._database.write(lambda connection: self._record(connection, name, None, act, based_on))

    def _record(
        self, connection: Connection, name: str, spec: Spec | None, act: AuditEntry, based_on: int | None = None
    ) -> bool:
        """Store the spec of a pool, and the audit entry of the act; False when it is unchanged."""
        _take_turn(connection)
        before = _existing(connection, name)
        current = before.revision if before else 0
        if based_on not in (None, current):
            raise StalePool(name, based_on, current)
        changed = self._write(connection, name, spec=spec, actor=act.actor)
        if changed:
            replaced = {"before": before.spec} if before else {}
            entry = replace(act, subject=name, detail={**(spec or {}), **replaced} or None)
            entries.store(connection, entry, self._now())
        return changed

    def declare(self, specs: Mapping[str, Spec], act: AuditEntry) -> list[str]:
        """Apply declarations that differ from the last declared ones; return the names of those pools.

        So a change by an admin stays until configuration itself changes. A pool that is no longer declared is removed.
        Each changed pool has an audit entry like `act`.
        """
        wanted = {name: _as_stored(spec) for name, spec in specs.items()}

        def work(connection: Connection) -> list[str]:
            _take_turn(connection)
            last = _declared(connection)
            changed = sorted(name for name in {*last, *wanted} if last.get(name) != wanted.get(name))
            for name in changed:
                spec = wanted.get(name)
                kind = AuditKind.POOL_REMOVED if spec is None else AuditKind.POOL_SET
                self._record(connection, name, spec, replace(act, kind=kind))
                connection.execute(update(pools).where(pools.c.name == name).values(declared=spec))
            return changed

        return [] if self._database.read(_declared) == wanted else self._database.write(work)

    def _write(self, connection: Connection, name: str, *, spec: Spec | None, actor: str) -> bool:
        """Store the spec of a pool, None for a removal; False when it is unchanged."""
        _take_turn(connection)
        found, damaged = unreadable.every(connection, _ONE, {"pool": name})
        if (found[0].spec if found else None) == spec and not damaged:
            return False
        now, revision = self._now(), _revision(connection) + 1
        same = found and not damaged and _limit(found[0].spec) == _limit(spec)
        limit_set_at = StoredPool(*found[0]).limited_since if same else now
        values = {"spec": spec, "revision": revision, "updated_at": now, "updated_by": actor}
        values["limit_set_at"] = limit_set_at
        if found:
            connection.execute(update(pools).where(pools.c.name == name).values(values))
        else:
            connection.execute(insert(pools).values(name=name, **values))
        return True


def _existing(connection: Connection, name: str) -> StoredPool | None:
    found = unreadable.rows(connection, _ONE.where(_THERE), {"pool": name})
    return next((StoredPool(*row) for row in found), None)


def _limit(spec: Spec | None) -> list[Json]:
    return [(spec or {}).get(part) for part in LIMIT_PARTS]


def _revision(connection: Connection) -> int:
    newest: int = connection.execute(POOL_REVISION).scalar_one()
    return newest


def _declared(connection: Connection) -> dict[str, Spec]:
    """Return what configuration declared last; a pool of which that is damaged is declared again."""
    return {row.name: row.declared for row in unreadable.rows(connection, _ALL) if row.declared is not None}


def _as_stored(spec: Spec) -> Spec:
    """Return the declaration as the database returns it, so that the two can be compared."""
    found: Spec = json.loads(encode(spec))
    return found


def _take_turn(connection: Connection) -> None:
    dialect_of(connection).wait_for_lock(connection, _CHANGE_LOCK_ID)
