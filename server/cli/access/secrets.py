"""The verbs of secrets: set, list, remove, rotate. No verb shows a value, and none takes one as an argument."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import typer
from duetime.scheduler.access.secret import REFERENCE_PREFIX, check_name
from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.nodes.heartbeat import check_workers_have_key, may_lack_key, workers_without_key
from duetime.scheduler.principal import ALL_TENANTS, LOCAL
from duetime.scheduler.rules.time import times
from duetime.scheduler.task import Json
from duetime.server.cli import output
from duetime.server.cli.access.tenants import one_tenant, tenant_or_all
from duetime.server.cli.exit_codes import FAILED_CODE
from duetime.server.cli.formats.shared_options import AuditReason
from duetime.server.cli.output import AsJson
from duetime.server.session import cli_caller, session
from duetime.tools.admin.secret_rows import read_hosts, secrets_json

_NEVER_USED = "never"

SecretName = Annotated[str, typer.Argument(metavar="NAME", help="the name by which tasks and settings name it")]
Tenant = Annotated[str | None, typer.Option(help="the tenant whose runs may use it")]


def set_(
    context: typer.Context,
    name: SecretName,
    *,
    tenant: Tenant = None,
    host: Annotated[
        list[str] | None, typer.Option(help="the only host to which webhooks may send it; may be repeated")
    ] = None,
    reason: AuditReason = None,
) -> None:
    """Store a secret, or replace its value, which is read from stdin or asked for."""
    check_name(name)
    tenant = one_tenant(tenant)
    hosts = read_hosts(host or ())
    value = value_of(name)
    detail: dict[str, Json] | None = {"hosts": list(hosts)} if hosts else None
    act = AuditEntry.by(cli_caller(), AuditKind.SECRET_SET, name, tenant=tenant, reason=reason, detail=detail)
    with session(context).store(create=True) as store:
        store.secrets.set(tenant, name, value, by=LOCAL.user, hosts=hosts, act=act)
    say_set(name, tenant, hosts)


def say_set(name: str, tenant: str, hosts: Sequence[str]) -> None:
    where = f" Webhooks may send it to {', '.join(hosts)} only." if hosts else ""
    output.say(f"Set {name} of {tenant}. Name it as {REFERENCE_PREFIX}{name}.{where}")


def list_(
    context: typer.Context,
    *,
    tenant: Annotated[str | None, typer.Option(help="the secrets of this tenant; `*` for all")] = None,
    as_json: AsJson = False,
) -> None:
    """List the secrets by name: who set each, when it was last used, and where webhooks may send it."""
    with session(context).store(create=True) as store:
        now, found = store.now(), store.secrets.all(tenant_or_all(tenant))
    show_secrets(secrets_json(found), now, everywhere=tenant == ALL_TENANTS, as_json=as_json)


def show_secrets(found: Mapping[str, Any], now: datetime, *, everywhere: bool, as_json: bool) -> None:
    """Write a list of secrets: those of one tenant, or `everywhere` those of all."""
    if as_json:
        output.as_json(dict(found))
    elif found["secrets"]:
        columns = ("NAME", "TENANT", "HOSTS", "SET", "BY", "LAST USED")
        output.table(columns, (_row(secret, now) for secret in found["secrets"]), spare=("BY",))
    else:
        none = "There is no secret" if everywhere else "This tenant has no secret"
        output.say(f"{none}. `duetime secrets set stripe-key` stores one.")


def remove(context: typer.Context, name: SecretName, *, tenant: Tenant = None, reason: AuditReason = None) -> None:
    """Remove a secret; runs that need it are blocked or fail from then on."""
    tenant = one_tenant(tenant)
    with session(context).store(create=True) as store:
        act = AuditEntry.by(cli_caller(), AuditKind.SECRET_REMOVED, name, tenant=tenant, reason=reason)
        store.secrets.remove(tenant, name, act)
    say_removed(name)


def say_removed(name: str) -> None:
    output.say(f"Removed {name}. Webhooks and watches that need it are blocked until it is set again; other runs fail.")


def rotate(context: typer.Context, *, reason: AuditReason = None) -> None:
    """Encrypt every secret again by the first of the secret keys, so that the others can be removed."""
    with session(context).store(create=True) as store:
        check_workers_have_key(store)
        done = store.secrets.rotate(AuditEntry.by(cli_caller(), AuditKind.SECRETS_ROTATED, reason=reason))
        lacking = workers_without_key(store)
    say_rotated(done.encrypted, [f"{secret.name} of {secret.tenant}" for secret in done.unreadable], lacking)


def say_rotated(encrypted: int, unreadable: Sequence[str], without_key: Sequence[str]) -> None:
    """Say what a rotation did; raises Exit where no key decrypts a secret, or a worker lacks the first key."""
    output.say(f"{encrypted} secret{'s' if encrypted != 1 else ''} encrypted by the first key.")
    if unreadable:
        them = "it" if len(unreadable) == 1 else "them"
        names = ", ".join(unreadable)
        output.note(f"No key decrypts {names}: add the key that encrypted {them} last, or set {them} again.")
    if without_key:
        found = may_lack_key(without_key)
        output.note(f"{found[0].upper()}{found[1:]} Set it in DUETIME_SECRET_KEYS there, and restart them.")
    if unreadable or without_key:
        raise typer.Exit(FAILED_CODE)


def value_of(name: str) -> str:
    """Return the value from stdin without its last line end, or ask for it twice; an argument would stand in `ps`."""
    if not sys.stdin.isatty():
        return sys.stdin.read().removesuffix("\n").removesuffix("\r")
    value: str = typer.prompt(f"Value of {name}", hide_input=True, confirmation_prompt=True, err=True)
    return value


def _row(secret: Mapping[str, Any], now: datetime) -> tuple[str, ...]:
    used = _ago(secret["last_used_at"], now) if secret.get("last_used_at") else _NEVER_USED
    hosts = ",".join(secret["hosts"]) or "any"
    return secret["name"], secret["tenant"], hosts, _ago(secret["set_at"], now), secret["set_by"], used


def _ago(at: str, now: datetime) -> str:
    return times.relative(datetime.fromisoformat(at), now)
