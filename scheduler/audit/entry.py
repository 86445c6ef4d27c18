"""Audit entries: what callers did apart from task changes, such as creating a key or changing a pool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Self

from duetime.scheduler.principal import Principal
from duetime.scheduler.task import Json


class AuditKind(StrEnum):
    """The kind of an audit entry: a noun and what was done to it."""

    KEY_CREATED = "key_created"
    KEY_REVOKED = "key_revoked"
    KEY_ROTATED = "key_rotated"
    SECRET_SET = "secret_set"  # nosec B105 # noqa: S105 - the name of a kind
    SECRET_REMOVED = "secret_removed"  # nosec B105 # noqa: S105 - as above
    SECRETS_ROTATED = "secrets_rotated"
    FIRE_ADDRESS_MADE = "fire_address_made"
    FIRE_ADDRESS_REVOKED = "fire_address_revoked"
    POOL_SET = "pool_set"
    POOL_REMOVED = "pool_removed"
    POLICY_SET = "policy_set"
    POLICY_RESTORED = "policy_restored"
    SHADOW_SET = "shadow_set"
    SHADOW_REMOVED = "shadow_removed"
    RETENTION_BEGUN = "retention_begun"
    RETENTION_RUN = "retention_run"
    RETENTION_REFUSED = "retention_refused"
    RETENTION_FAILED = "retention_failed"
    ROWS_REMOVED = "rows_removed"
    ROWS_IMPORTED = "rows_imported"
    BACKUP_BEGUN = "backup_begun"
    BACKUP_MADE = "backup_made"
    DEAD_LETTER_REPLAYED = "dead_letter_replayed"
    DEAD_LETTER_DISCARDED = "dead_letter_discarded"
    DELIVERIES_SENT_AGAIN = "deliveries_sent_again"
    QUIET_HOURS_SET = "quiet_hours_set"
    QUIET_HOURS_CLEARED = "quiet_hours_cleared"
    TASKS_CHANGED = "tasks_changed"
    WORKER_DRAINED = "worker_drained"
    WORKER_RESUMED = "worker_resumed"
    LOGGED_IN = "logged_in"
    LOGGED_OUT = "logged_out"
    LOGIN_REFUSED = "login_refused"
    OTHER_TENANT_READ = "other_tenant_read"
    EXPORTED = "exported"


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """An act of a caller: who did what to which `subject`, by which way, and why.

    `tenant` is whose audit log has it: the tenant that the act concerns. `actor_tenant` is given where the actor is of
    another one. `subject` names a key, pool, secret, worker or run; `detail` holds values, and never a secret. The
    store gives `id` and `at`.
    """

    tenant: str
    kind: AuditKind
    actor: str
    via: str | None = None
    subject: str | None = None
    reason: str | None = None
    detail: Mapping[str, Json] | None = None
    actor_tenant: str | None = None
    id: int = 0
    at: datetime | None = None

    @classmethod
    def by(
        cls,
        who: Principal,
        kind: AuditKind,
        subject: str | None = None,
        *,
        tenant: str | None = None,
        reason: str | None = None,
        detail: Mapping[str, Json] | None = None,
    ) -> Self:
        """Return the entry of an act of `who`, in the audit log of `tenant`: by default his own."""
        concerned = tenant or who.tenant
        home = who.tenant if who.tenant != concerned else None
        return cls(concerned, kind, who.user, who.via, subject, reason, detail, home)


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """A filter for an audit log; absent parts match everything. `since` is inclusive, `until` exclusive.

    `surface` is the first word of `via`: `mcp`, `rest`, `admin`, `cli`, `python` or `stdio`.
    """

    actor: str | None = None
    surface: str | None = None
    kind: str | None = None
    subject: str | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class AuditPage:
    """One page of audit entries, newest first; `cursor` fetches the next (older) page, None at the end."""

    entries: tuple[AuditEntry, ...]
    cursor: str | None = None
