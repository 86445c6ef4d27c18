"""Writes into the audit log who came in or was turned away, what was exported, and what operators read of others."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.principal import ALL_TENANTS, Principal

if TYPE_CHECKING:
    from duetime.scheduler.store import Store
    from duetime.server.admin.access.sessions import AdminSession

MAX_REFUSALS_PER_MINUTE: Final = 30
"""Refused logins that are recorded each minute: nobody can fill the database by guessing keys."""

READ_INTERVAL: Final = timedelta(minutes=10)
"""The same session that reads the same page of the same tenant again is recorded after this time."""

MAX_READS_KNOWN: Final = 10_000
UNKNOWN: Final = "unknown"
"""The actor in the entry of a refused login."""


class AccessAudit:
    """The audit of one process. `operator_tenant` has the refused logins that belong to no tenant."""

    def __init__(self, store: Callable[[], Store], operator_tenant: str) -> None:
        self._store = store
        self._operator_tenant = operator_tenant
        self._lock = threading.Lock()
        self._refusals: deque[datetime] = deque()
        self._unrecorded = 0
        self._reads: OrderedDict[tuple[str, str, str], datetime] = OrderedDict()

    def logged_in(self, who: Principal, key_id: str | None = None, issuer: str | None = None) -> None:
        """Record a login by a key, or as an issuer says."""
        detail = {"issuer": issuer} if issuer else None
        self._store().audit.record(AuditEntry.by(who, AuditKind.LOGGED_IN, key_id, detail=detail))

    def logged_out(self, who: Principal, key_id: str) -> None:
        self._store().audit.record(AuditEntry.by(who, AuditKind.LOGGED_OUT, key_id or None))

    def refused(self, via: str, reason: str, key_id: str | None = None) -> None:
        """Record a refused login, in the log of the tenant whose key was tried; not more than so many each minute."""
        passed = self._passed_over()
        if passed is None:
            return
        key = self._store().api_keys.find(key_id) if key_id is not None else None
        tenant, subject = (key.tenant, key.id) if key is not None else (self._operator_tenant, None)
        detail = {"refusals_not_recorded": passed} if passed else None
        entry = AuditEntry(tenant, AuditKind.LOGIN_REFUSED, UNKNOWN, via, subject, reason, detail)
        self._store().audit.record(entry)

    def _passed_over(self) -> int | None:
        """Return how many refusals before this one were not recorded; None if this one is not recorded either."""
        now = self._store().now()
        with self._lock:
            while self._refusals and now - self._refusals[0] >= timedelta(minutes=1):
                self._refusals.popleft()
            if len(self._refusals) >= MAX_REFUSALS_PER_MINUTE:
                self._unrecorded += 1
                return None
            self._refusals.append(now)
            passed, self._unrecorded = self._unrecorded, 0
            return passed

    def read(self, who: Principal, session: AdminSession, tenant: str | None, path: str) -> None:
        """Record that an operator reads a page of another tenant, or of all (None); his own needs no entry.

        The local user, whom no key lets in, sees all tenants by himself: for him only a chosen one is recorded.
        """
        is_local = not (session.key_id or session.tenant)
        if not who.operator or tenant == who.tenant or (tenant is None and is_local):
            return
        if self._is_news((session.id, tenant or ALL_TENANTS, path)):
            detail = {"tenants": ALL_TENANTS} if tenant is None else None
            entry = AuditEntry.by(who, AuditKind.OTHER_TENANT_READ, path, tenant=tenant, detail=detail)
            self._store().audit.record_read(entry)

    def exported(self, who: Principal, tenant: str | None, name: str) -> None:
        """Record each file of the things of a tenant, or of all (None): from there on no log has who reads it."""
        detail = {"tenants": ALL_TENANTS} if tenant is None else None
        self._store().audit.record_read(AuditEntry.by(who, AuditKind.EXPORTED, name, tenant=tenant, detail=detail))

    def _is_news(self, read: tuple[str, str, str]) -> bool:
        now = self._store().now()
        with self._lock:
            known = self._reads.get(read)
            if known is not None and now - known < READ_INTERVAL:
                return False
            self._reads[read] = now
            self._reads.move_to_end(read)
            if len(self._reads) > MAX_READS_KNOWN:
                self._reads.popitem(last=False)
            return True
