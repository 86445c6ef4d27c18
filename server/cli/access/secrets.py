"""The verbs of secrets: set, list, remove, rotate. No verb shows a value, and none takes one as an argument."""

from __future__ import annotations

import re
import sys
from datetime import datetime
from typing import Annotated

import typer
from duetime.scheduler.access.secret import REFERENCE, Secret, check_name
from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.principal import LOCAL, Principal
from duetime.scheduler.rules.time import times
from duetime.scheduler.task import Json
from duetime.server.cli import output
from duetime.server.cli.exit_codes import FAILED_CODE
from duetime.server.cli.output import AsJson
from duetime.server.session import cli_caller, session

NEVER = "never"
_HOST = re.compile(r"[a-z0-9_.:\[\]-]{1,253}")

SecretName = Annotated[str, typer.Argument(metavar="NAME", help="the name by which tasks and settings name it")]
Tenant = Annotated[str, typer.Option(help="the tenant whose runs may use it")]


def set_(
    context: typer.Context,
    name: SecretName,
    *,
    tenant: Tenant = LOCAL.tenant,
    host: Annotated[
        list[str] | None, typer.Option(help="the only host to which webhooks may send it; may be repeated")
    ] = None,
) -> None:
    """Store a secret, or replace its value, which is read from stdin or asked for."""
    check_name(name)
    owner = Principal(tenant)
    hosts = tuple(dict.fromkeys(_host(each) for each in host or ()))
    value = _value(name)
    with session(context).store(create=True) as store:
        store.secrets.set(owner.tenant, name, value, by=LOCAL.user, hosts=hosts)
        detail: dict[str, Json] | None = {"hosts": list(hosts)} if hosts else None
        store.audit.record(AuditEntry.by(cli_caller(), AuditKind.SECRET_SET, name, tenant=owner.tenant, detail=detail))
    where = f" Webhooks may send it to {', '.join(hosts)} only." if hosts else ""
    output.say(f"Set {name} of {tenant}. Name it as {REFERENCE}{name}.{where}")


def list_(
    context: typer.Context,
    *,
    tenant: Annotated[str | None, typer.Option(help="only the secrets of this tenant")] = None,
    as_json: AsJson = False,
) -> None:
    """List the secrets by name: who set each, when it was last used, and where webhooks may send it."""
    with session(context).store(create=True) as store:
        now, found = store.now(), store.secrets.all(tenant)
    if as_json:
        output.as_json({"schema": "duetime.secrets/1", "secrets": [_json(secret) for secret in found]})
    elif found:
        columns = ("NAME", "TENANT", "HOSTS", "SET", "BY", "LAST USED")
        output.table(columns, (_row(secret, now) for secret in found), spare=("BY",))
    else:
        output.say("There is no secret. `duetime secrets set stripe-key` stores one.")


def remove(context: typer.Context, name: SecretName, *, tenant: Tenant = LOCAL.tenant) -> None:
    """Remove a secret; runs that need it fail from then on."""
    with session(context).store(create=True) as store:
        store.secrets.remove(tenant, name)
        store.audit.record(AuditEntry.by(cli_caller(), AuditKind.SECRET_REMOVED, name, tenant=tenant))
    output.say(f"Removed {name} of {tenant}. Runs that need it fail from now on.")


def rotate(context: typer.Context) -> None:
    """Encrypt every secret again by the first of the secret keys, so that the others can be removed."""
    with session(context).store(create=True) as store:
        done = store.secrets.rotate()
        counts: dict[str, Json] = {"encrypted": done.encrypted, "unreadable": len(done.unreadable)}
        store.audit.record(AuditEntry.by(cli_caller(), AuditKind.SECRETS_ROTATED, detail=counts))
    output.say(f"{done.encrypted} secret{'s' if done.encrypted != 1 else ''} encrypted by the first key.")
    if done.unreadable:
        names = ", ".join(f"{secret.name} of {secret.tenant}" for secret in done.unreadable)
        output.note(f"No key decrypts {names}: add the key that it was set with, or set it again.")
        raise typer.Exit(FAILED_CODE)


def _value(name: str) -> str:
    """Return the value from stdin without its last line end, or ask for it twice; an argument would stand in `ps`."""
    if not sys.stdin.isatty():
        return sys.stdin.read().removesuffix("\n").removesuffix("\r")
    asked: str = typer.prompt(f"Value of {name}", hide_input=True, confirmation_prompt=True, err=True)
    return asked


def _host(text: str) -> str:
    host = text.strip().lower()
    if not _HOST.fullmatch(host):
        raise InvalidArgument("host", f"{text[:60]!r} is no host", accepted="a host name", example="api.stripe.com")
    return host


def _row(secret: Secret, now: datetime) -> tuple[str, ...]:
    used = times.relative(secret.last_used_at, now) if secret.last_used_at else NEVER
    hosts = ",".join(secret.hosts) or "any"
    return secret.name, secret.tenant, hosts, times.relative(secret.set_at, now), secret.set_by, used


def _json(secret: Secret) -> dict[str, Json]:
    """Return a secret without its value, encrypted or not."""
    return {
        "name": secret.name,
        "tenant": secret.tenant,
        "hosts": list(secret.hosts),
        "set_at": times.utc(secret.set_at),
        "set_by": secret.set_by,
        "last_used_at": times.utc(secret.last_used_at) if secret.last_used_at else None,
    }
