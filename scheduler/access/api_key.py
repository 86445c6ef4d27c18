"""An API key as it is stored: its public id, whose it is, and a digest of its secret."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.principal import Principal
from duetime.scheduler.remedies import ListKeys


class KeyNotFound(DuetimeError):
    """No API key has the id."""

    code = "not_found"

    def __init__(self, key_id: str) -> None:
        super().__init__(f"no API key {key_id[:40]!r}.", argument="key_id", remedy=ListKeys())


class TenantWithoutKeys(DuetimeError):
    """The tenant has no API key: its name is wrong, or nobody made one."""

    code = "not_found"

    def __init__(self, tenant: str) -> None:
        super().__init__(f"{tenant[:80]!r} has no API key, so none was revoked.", argument="tenant", remedy=ListKeys())


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key of a principal; `digest` is SHA-256 of the secret, in hexadecimal digits.

    `last_used_at` is exact to a minute. `name` says what the key is for.
    """

    id: str
    tenant: str
    user: str
    scopes: tuple[str, ...]
    name: str
    digest: str
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None

    @property
    def principal(self) -> Principal:
        return Principal(self.tenant, self.user, frozenset(self.scopes))

    def state(self, now: datetime) -> str:
        """Return `active`, `expired` or `revoked`."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "active"
