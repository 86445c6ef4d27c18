"""API keys. Only the look-up by id is without a tenant: it is what decides whose a call is.

A change stores its audit entry, `act`, in its own transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from duetime.scheduler.access.api_key import ApiKey, KeyNotFound, TenantWithoutKeys
from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.errors import Refused
from duetime.scheduler.ids import is_id
from duetime.scheduler.remedies import CreateKey, ListKeys
from duetime.scheduler.store.audit import entries
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.schema.rows import columns_of
from duetime.scheduler.store.schema.tables.audit import audit_entries
from duetime.scheduler.store.schema.tables.pools import api_keys
from sqlalchemy import Connection, Select, bindparam, insert, select, update

LAST_USE_PRECISION = timedelta(minutes=1)
"""The time of a key's last use is written at most this often: a call must not cost a write."""

_COLUMNS = columns_of(ApiKey, api_keys)
_NAMES = [column.name for column in _COLUMNS]
_ALL = select(*_COLUMNS).order_by(api_keys.c.tenant, api_keys.c.created_at, api_keys.c.id)
_ONE = select(*_COLUMNS).where(api_keys.c.id == bindparam("key_id"))
_REVOKE = update(api_keys).where(api_keys.c.revoked_at.is_(None))
_SUCCESSOR = "successor"
_ROTATION = (
    select(audit_entries.c.detail)
    .where(
        audit_entries.c.tenant == bindparam("of"),
        audit_entries.c.at >= bindparam("since", type_=audit_entries.c.at.type),
        audit_entries.c.kind == AuditKind.KEY_ROTATED,
        audit_entries.c.subject == bindparam("key_id"),
    )
    .order_by(audit_entries.c.at.desc())
)
_ROTATION_MARGIN = timedelta(minutes=5)
"""A rotation noted this long before a search is stored by then, although the clocks of processes differ."""


class ApiKeys:
    """The API keys of all tenants."""

    def __init__(self, database: Database, now: Callable[[], datetime]) -> None:
        self._database = database
        self._now = now

    def add(self, key: ApiKey, act: AuditEntry | None = None) -> None:
        """Store a new key, and who made it."""

        def work(connection: Connection) -> None:
            _add(connection, key)
            self._note(connection, act)

        self._database.write(work)

    def find(self, key_id: str) -> ApiKey | None:
        """Return the key with this id, whatever its state."""
        if not is_id(key_id):
            return None
        found = self._database.look(lambda connection: _keys(connection, _ONE, {"key_id": key_id}))
        return next(iter(found), None)

    def all(self, tenant: str | None = None) -> list[ApiKey]:
        """Return the keys, of one tenant or of all, revoked and expired ones included."""
        statement = _ALL if tenant is None else _ALL.where(api_keys.c.tenant == tenant)
        return self._database.look(lambda connection: _keys(connection, statement))

    def revoke(self, key_id: str, act: AuditEntry | None = None) -> ApiKey:
        """Revoke a key at once and for ever; a revoked one stays as it is. Raises KeyNotFound."""

        def work(connection: Connection) -> ApiKey:
            connection.execute(_REVOKE.where(api_keys.c.id == key_id).values(revoked_at=self._now()))
            revoked = _existing(connection, key_id)
            self._note(connection, act)
            return revoked

        return self._database.write(work)

    def revoke_tenant(self, tenant: str, act: AuditEntry | None = None) -> int:
        """Revoke every key of a tenant; return how many were not revoked before, which the entry says too.

        Raises TenantWithoutKeys for a tenant that has none: a mistyped name begins no audit chain.
        """
        statement = _REVOKE.where(api_keys.c.tenant == tenant).values(revoked_at=self._now())

        def work(connection: Connection) -> int:
            count = connection.execute(statement).rowcount
            if not count and not _keys(connection, _ALL.where(api_keys.c.tenant == tenant).limit(1)):
                raise TenantWithoutKeys(tenant)
            self._note(connection, act and replace(act, detail={"keys": count}))
            return count

        return self._database.write(work)

    def replace(
        self,
        key_id: str,
        make: Callable[[ApiKey], ApiKey],
        *,
        overlap: timedelta,
        act: AuditEntry | None = None,
    ) -> tuple[ApiKey, ApiKey]:
        """Store what `make` makes of an active key; the old one expires after `overlap`, or earlier as it was to.

        Returns the old key and the new one. Raises KeyNotFound, and Refused for a key that is not active. So it does
        for one that was replaced before, by a key that is still active. The search for that reads all entries since the
        key was made, so it precedes the transaction, which repeats it for the last minutes alone.
        """
        began, known = self._now(), self.find(key_id)
        earlier = known and self._database.read(lambda found: _successor(found, known, known.created_at, began))

        def work(connection: Connection) -> tuple[ApiKey, ApiKey]:
            now = self._now()
            old = _existing(connection, key_id, lock=True)
            if old.state(now) != "active":
                raise Refused(f"the key {old.id} is {old.state(now)}.", remedy=CreateKey())
            recent = _successor(connection, old, max(began - _ROTATION_MARGIN, old.created_at), now)
            if successor := recent or earlier:
                raise Refused(
                    f"the key {old.id} was rotated before: rotate {successor}, which replaces it.", remedy=ListKeys()
                )
            ends = min(now + overlap, old.expires_at or now + overlap)
            connection.execute(update(api_keys).where(api_keys.c.id == key_id).values(expires_at=ends))
            new = make(old)
            _add(connection, new)
            self._note(connection, act and replace(act, detail={_SUCCESSOR: new.id}))
            return _existing(connection, key_id), new

        return self._database.write(work)

    def _note(self, connection: Connection, act: AuditEntry | None) -> None:
        """Store the entry of a change in its transaction: neither is there without the other."""
        if act is not None:
            entries.store(connection, act, self._now())

    def note_use(self, key: ApiKey) -> None:
        """Note that a key was used now, unless that was written a moment ago."""
        now = self._now()
        if key.last_used_at is not None and now - key.last_used_at < LAST_USE_PRECISION:
            return
        due = api_keys.c.last_used_at.is_(None) | (api_keys.c.last_used_at <= now - LAST_USE_PRECISION)
        statement = update(api_keys).where(api_keys.c.id == key.id, due).values(last_used_at=now)
        self._database.write(lambda connection: connection.execute(statement), durable=False)


def _successor(connection: Connection, old: ApiKey, since: datetime, now: datetime) -> str | None:
    """Return the active key that has replaced another one by the audit log since then; None where none has."""
    rows = unreadable.rows(connection, _ROTATION, {"of": old.tenant, "key_id": old.id, "since": since})
    for row in rows:
        successor = str((row.detail or {}).get(_SUCCESSOR))
        if any(key.state(now) == "active" for key in _keys(connection, _ONE, {"key_id": successor})):
            return successor
    return None


def _add(connection: Connection, key: ApiKey) -> None:
    connection.execute(insert(api_keys).values({name: getattr(key, name) for name in _NAMES}))


def _existing(connection: Connection, key_id: str, *, lock: bool = False) -> ApiKey:
    found = _keys(connection, _ONE.with_for_update() if lock else _ONE, {"key_id": key_id}) if is_id(key_id) else []
    if not found:
        raise KeyNotFound(key_id)
    return found[0]


def _keys(connection: Connection, statement: Select[Any], parameters: dict[str, str] | None = None) -> list[ApiKey]:
    return [ApiKey(*row) for row in unreadable.rows(connection, statement, parameters or {})]
