"""Secrets: encrypted values of each tenant, which its runs read by name.

A change stores its audit entry, `act`, in its own transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from duetime.scheduler.access.secret import (
    MAX_SECRET_BYTES,
    MIN_VALUE_CHARS,
    Secret,
    SecretNotFound,
    SecretUnavailable,
    check_name,
    is_name,
)
from duetime.scheduler.audit.entry import AuditEntry
from duetime.scheduler.errors import InvalidArgument, StoreUnavailable
from duetime.scheduler.store.access.api_keys import LAST_USE_PRECISION
from duetime.scheduler.store.access.cipher import Cipher
from duetime.scheduler.store.audit import entries
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.schema.rows import columns_of
from duetime.scheduler.store.schema.tables.access import secrets
from duetime.scheduler.task import Json
from sqlalchemy import ColumnElement, Connection, bindparam, delete, insert, select, update

_COLUMNS = columns_of(Secret, secrets)
_NAMES = [column.name for column in _COLUMNS]
_ALL = select(*_COLUMNS).order_by(secrets.c.tenant, secrets.c.name)
_ONE = _ALL.where(secrets.c.tenant == bindparam("of"), secrets.c.name == bindparam("called"))
_HOSTS = select(secrets.c.name, secrets.c.hosts).where(secrets.c.tenant == bindparam("of")).order_by(secrets.c.name)


@dataclass(frozen=True, slots=True)
class Rotation:
    """The number of secrets that the first key encrypts now, and those that no key decrypts: they stay as they are."""

    encrypted: int
    unreadable: tuple[Secret, ...]


class Secrets:
    """The secrets of all tenants; values are encrypted before they get here and decrypted when a run reads them."""

    def __init__(self, database: Database, now: Callable[[], datetime], cipher: Cipher) -> None:
        self._database = database
        self._now = now
        self._cipher = cipher

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The ids of the keys of this process: the first one encrypts."""
        return self._cipher.key_ids

    def set(
        self,
        tenant: str,
        name: str,
        value: str,
        *,
        by: str,
        hosts: Sequence[str] = (),
        act: AuditEntry | None = None,
    ) -> Secret:
        """Store a value under a name, in place of an earlier one. Raises InvalidArgument and InvalidSetting."""
        check_name(name)
        _check_value(value)
        secret = Secret(tenant, name, self._cipher.encrypted(tenant, name, value), tuple(hosts), self._now(), by)

        def work(connection: Connection) -> None:
            connection.execute(delete(secrets).where(*_is(secret)))
            connection.execute(insert(secrets).values({each: getattr(secret, each) for each in _NAMES}))
            self._note(connection, act)

        self._database.write(work)
        return secret

    def all(self, tenant: str | None = None) -> list[Secret]:
        """Return the secrets of one tenant or of all, with their values encrypted."""
        statement = _ALL if tenant is None else _ALL.where(secrets.c.tenant == tenant)
        return self._database.look(
            lambda connection: [Secret(*row) for row in unreadable.rows(connection, statement, {})]
        )

    def hosts(self, tenant: str) -> Mapping[str, tuple[str, ...]]:
        """Return the names of a tenant's secrets, each with the hosts that webhooks may send it to."""
        rows = self._database.look(lambda connection: unreadable.rows(connection, _HOSTS, {"of": tenant}))
        return {str(name): tuple(hosts) for name, hosts in rows}

    def remove(self, tenant: str, name: str, act: AuditEntry | None = None) -> None:
        """Remove a secret; runs that need it are blocked or fail from now on. Raises SecretNotFound."""
        gone = delete(secrets).where(secrets.c.tenant == tenant, secrets.c.name == name)

        def work(connection: Connection) -> int:
            count = connection.execute(gone).rowcount
            if count:
                self._note(connection, act)
            return count

        if not is_name(name) or not self._database.write(work):
            raise SecretNotFound(name, tuple(self.hosts(tenant)))

    def value(self, tenant: str, name: str, host: str | None = None) -> str:
        """Return the value of a secret, for use at once; with a `host`, for a request to that host.

        Raises SecretUnavailable when there is none, when no key decrypts it, and when it is for other hosts.
        """
        found = self._find(tenant, name)
        if found is None:
            raise SecretUnavailable(name, _unknown(name, tuple(self.hosts(tenant))))
        if host is not None and found.hosts and host.lower() not in found.hosts:
            raise SecretUnavailable(name, f"it may be sent to {', '.join(found.hosts)} only, not to {host[:100]}")
        value = self._cipher.decrypted(tenant, name, found.token)
        self._note_use(found)
        return value

    def rotate(self, act: AuditEntry | None = None) -> Rotation:
        """Encrypt every secret by the first key, all or none; a value that is set during it stays.

        The entry says how many there were.
        """
        kept, tokens = list[Secret](), list[tuple[Secret, str]]()
        for secret in self.all():
            try:
                tokens.append((secret, self._cipher.encrypted_again(secret.tenant, secret.name, secret.token)))
            except SecretUnavailable:
                kept.append(secret)

        def work(connection: Connection) -> None:
            for secret, token in tokens:
                unchanged = *_is(secret), secrets.c.token == secret.token
                connection.execute(update(secrets).where(*unchanged).values(token=token))
            counts: dict[str, Json] = {"encrypted": len(tokens), "unreadable": len(kept)}
            self._note(connection, act and replace(act, detail=counts))

        self._database.write(work)
        return Rotation(len(tokens), tuple(kept))

    def _note(self, connection: Connection, act: AuditEntry | None) -> None:
        """Store the entry of a change in its transaction: neither is there without the other."""
        if act is not None:
            entries.store(connection, act, self._now())

    def undecryptable(self) -> list[Secret]:
        """Return the secrets that no key of this process can decrypt."""

        def closed(secret: Secret) -> bool:
            try:
                self._cipher.decrypted(secret.tenant, secret.name, secret.token)
            except SecretUnavailable:
                return True
            return False

        return [secret for secret in self.all() if closed(secret)]

    def of_older_keys(self) -> list[Secret]:
        """Return the secrets that another key than the first of this process encrypted."""
        return [secret for secret in self.all() if not self._cipher.is_by_first_key(secret.token)]

    def _find(self, tenant: str, name: str) -> Secret | None:
        if not is_name(name):
            return None
        which = {"of": tenant, "called": name}
        rows = self._database.look(lambda connection: unreadable.rows(connection, _ONE, which))
        return next((Secret(*row) for row in rows), None)

    def _note_use(self, secret: Secret) -> None:
        now = self._now()
        if secret.last_used_at is not None and now - secret.last_used_at < LAST_USE_PRECISION:
            return
        noted = update(secrets).where(*_is(secret)).values(last_used_at=now)
        try:
            self._database.write(lambda connection: connection.execute(noted), durable=False)
        except StoreUnavailable:
            return  # the run has the value; when it was used is worth no failure


def _is(secret: Secret) -> tuple[ColumnElement[bool], ...]:
    return secrets.c.tenant == secret.tenant, secrets.c.name == secret.name


def _check_value(value: str) -> None:
    accepted = f"{MIN_VALUE_CHARS} characters to {MAX_SECRET_BYTES // 1024} KiB of text"
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidArgument("value", "contains half a character", accepted=accepted) from None
    if "\0" in value or size > MAX_SECRET_BYTES:
        raise InvalidArgument("value", "it is too long, or contains a zero byte", accepted=accepted)
    if len(value) < MIN_VALUE_CHARS:
        raise InvalidArgument(
            "value", f"it is shorter than {MIN_VALUE_CHARS} characters, so it could not be masked", accepted=accepted
        )


def _unknown(name: str, known: tuple[str, ...]) -> str:
    """Return the error for an unknown secret; it names the known ones, or shows how to store one."""
    if known:
        return f"this tenant has no secret of that name ({', '.join(known)})"
    stored = f"`duetime secrets set {name}`" if is_name(name) else "`duetime secrets set NAME`"
    return f"this tenant has none; an administrator stores it with {stored}"
