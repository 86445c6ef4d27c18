"""Secrets of a tenant: set, list, remove, rotate. No answer, no problem and no log line has a value."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Annotated, Literal

from duetime.scheduler.access.secret import MAX_SECRET_BYTES
from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.errors import InvalidSetting, Refused
from duetime.scheduler.intake.validation import tenant_read
from duetime.scheduler.nodes.heartbeat import check_workers_have_key, workers_without_key
from duetime.scheduler.principal import Principal, Scope
from duetime.scheduler.task import Json
from duetime.server.auth.access import only_operators
from duetime.server.rest.operation import Operation, RestAnswer, RestCall
from duetime.server.rest.resources.history import TENANT, read_by
from duetime.server.rest.resources.installation import REASON
from duetime.server.rest.resources.payloads import RestPayload
from duetime.tools.admin.secret_rows import read_hosts, secrets_json
from duetime.tools.arguments.arguments import Argument
from duetime.tools.arguments.types import Text, Texts
from pydantic import Field

MAX_HOSTS_OF_SECRET = 100


class SecretPayload(RestPayload):
    """A secret without its value: who set it and when, and the only hosts to which webhooks may send it."""

    name: str
    tenant: str
    hosts: tuple[str, ...]
    set_at: str
    set_by: str
    last_used_at: str | None = None


class SecretsPayload(RestPayload):
    """The secrets of a tenant."""

    schema_: Annotated[Literal["duetime.secrets/1"], Field(alias="schema")] = "duetime.secrets/1"
    secrets: tuple[SecretPayload, ...]


class RotatedPayload(RestPayload):
    """The result of a rotation: `encrypted` by the first key; no key decrypts those that are `unreadable`.

    `workers_without_key` report no key: unless they are of an earlier release, their runs can read no secret.
    """

    schema_: Annotated[Literal["duetime.secrets_rotated/1"], Field(alias="schema")] = "duetime.secrets_rotated/1"
    encrypted: int
    unreadable: tuple[SecretPayload, ...]
    workers_without_key: tuple[str, ...]


def secrets(call: RestCall) -> RestAnswer:
    """Return the secrets of a tenant, or of all."""
    who = read_by(call)
    return _listed(call, tenant_read(who["by"], who.get("tenant")))


def _listed(call: RestCall, tenant: str | None) -> RestAnswer:
    return RestAnswer(SecretsPayload.model_validate(secrets_json(call.parts.store.secrets.all(tenant))))


def set_secret(call: RestCall) -> RestAnswer:
    """Store a value under a name, in place of an earlier one."""
    tenant, name = _changed(call), call.values["name"]
    hosts = read_hosts(call.values.get("hosts", ()), "hosts", "['api.stripe.com']")
    act = _entry(call, AuditKind.SECRET_SET, tenant, {"hosts": list(hosts)} if hosts else None)
    with _keys_of_server():
        call.parts.store.secrets.set(tenant, name, call.values["value"], by=call.by.user, hosts=hosts, act=act)
    return _listed(call, tenant)


def remove(call: RestCall) -> RestAnswer:
    """Remove a secret; runs that need it are blocked or fail from then on."""
    tenant = _changed(call)
    call.parts.store.secrets.remove(tenant, call.values["name"], _entry(call, AuditKind.SECRET_REMOVED, tenant))
    return _listed(call, tenant)


def rotate(call: RestCall) -> RestAnswer:
    """Encrypt every secret again by the first of the secret keys of the server, unless a live worker lacks it."""
    check_workers_have_key(call.parts.store)
    with _keys_of_server():
        done = call.parts.store.secrets.rotate(_entry(call, AuditKind.SECRETS_ROTATED, call.by.tenant))
    found = {
        "encrypted": done.encrypted,
        "unreadable": secrets_json(done.unreadable)["secrets"],
        "workers_without_key": workers_without_key(call.parts.store),
    }
    return RestAnswer(RotatedPayload.model_validate(found))


@contextmanager
def _keys_of_server() -> Iterator[None]:
    """Refuse what needs a key to encrypt with where the settings of the server have none: no caller can mend that."""
    try:
        yield
    except InvalidSetting as error:
        raise Refused(str(error)) from None


def _changed(call: RestCall) -> str:
    """Return the tenant whose secrets are changed: the caller's own, or another one for an operator."""
    tenant: str = call.values.get("tenant", call.by.tenant)
    if not call.by.may_change_all_of(tenant):
        raise only_operators(Scope.ADMIN)
    return Principal(tenant).tenant


def _entry(call: RestCall, kind: AuditKind, tenant: str, detail: dict[str, Json] | None = None) -> AuditEntry:
    name, reason = call.values.get("name"), call.values.get("reason")
    return AuditEntry.by(call.by, kind, name, tenant=tenant, reason=reason, detail=detail)


_NAME = Argument("name", Text(64), "The name by which tasks and settings name it", "name='stripe-key'", required=True)
OF_SECRETS = (
    Operation(
        "list_secrets",
        "GET",
        "/secrets",
        "List secrets by name, without their values",
        secrets,
        SecretsPayload,
        Scope.ADMIN_READ,
        in_query=(TENANT,),
    ),
    Operation(
        "set_secret",
        "PUT",
        "/secrets/{name}",
        "Store a secret, or replace its value; no answer has the value",
        set_secret,
        SecretsPayload,
        Scope.ADMIN,
        in_path=(_NAME,),
        body=(
            Argument("value", Text(MAX_SECRET_BYTES), "8 characters to 16 KiB", required=True),
            Argument("hosts", Texts(MAX_HOSTS_OF_SECRET), "Webhooks send it to these alone", "hosts=['example.com']"),
            REASON,
            TENANT,
        ),
        statuses=(HTTPStatus.CONFLICT,),
    ),
    Operation(
        "remove_secret",
        "DELETE",
        "/secrets/{name}",
        "Remove a secret; runs that need it are blocked or fail from then on",
        remove,
        SecretsPayload,
        Scope.ADMIN,
        in_path=(_NAME,),
        in_query=(REASON, TENANT),
    ),
    Operation(
        "rotate_secrets",
        "POST",
        "/secrets/rotate",
        "Encrypt every secret again by the first of the secret keys, so that the others can be removed",
        rotate,
        RotatedPayload,
        Scope.ADMIN,
        body=(REASON,),
        statuses=(HTTPStatus.CONFLICT,),
        for_operators=True,
    ),
)
