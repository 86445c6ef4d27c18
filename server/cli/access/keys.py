"""The verbs of API keys: create, list, revoke, rotate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from shlex import quote
from typing import Annotated, Any

import typer
from duetime.scheduler.access.api_key import ApiKey, KeyNotFound
from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.principal import ALL_TENANTS, LOCAL, Principal, Scope
from duetime.scheduler.rules.time import times
from duetime.scheduler.store import Store
from duetime.scheduler.task import Json
from duetime.server.auth.issued_keys import NEVER_EXPIRES, new_key, overlap_of, successor, validity_of
from duetime.server.auth.key_format import KeyText
from duetime.server.cli import output
from duetime.server.cli.access.tenants import one_tenant, tenant_or_all
from duetime.server.cli.formats.shared_options import AuditReason
from duetime.server.cli.output import AsJson
from duetime.server.rest.rows.keys import keys_json, new_key_json
from duetime.server.session import cli_caller, session

MAX_NAMESAKES_SHOWN = 5
_ONE_DAY, _HALF_AN_HOUR = timedelta(days=1), timedelta(minutes=30)

KeyId = Annotated[
    str, typer.Argument(metavar="ID", help="the key, by its id or its name, as `duetime keys list` shows them")
]


def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="what the key is for, as `duetime keys list` shows it")],
    *,
    tenant: Annotated[str | None, typer.Option(help="the tenant whose tasks it opens")] = None,
    user: Annotated[str | None, typer.Option(help="the user in whose name it acts")] = None,
    scope: Annotated[
        list[Scope] | None,
        typer.Option(help="what it may do: tasks, worker, admin:read or admin; may be repeated"),
    ] = None,
    expires: Annotated[str, typer.Option(help="after what time it ends: '90 days', or never")] = "365 days",
    reason: AuditReason = None,
    as_json: AsJson = False,
) -> None:
    """Create an API key and show it, which happens only once."""
    named = LOCAL.user if user is None else user
    owner = Principal(one_tenant(tenant), named, frozenset(scope or [Scope.TASKS]))
    validity = validity_of(expires)
    with session(context).store(create=True) as store:
        now = store.now()
        text, key = new_key(owner, name, now, validity)
        row: dict[str, Json] = {"name": key.name, "user": key.user, "scopes": list(key.scopes)}
        store.api_keys.add(key, _entry(AuditKind.KEY_CREATED, key, reason, row))
    show_new(new_key_json(key, text.text, now), now, as_json=as_json)


def list_(
    context: typer.Context,
    *,
    tenant: Annotated[str | None, typer.Option(help="only the keys of this tenant; `*` for all")] = None,
    as_json: AsJson = False,
) -> None:
    """List the API keys: whose each is, what it may do, when it ends and when it was last used."""
    with session(context).store(create=True) as store:
        now, found = store.now(), store.api_keys.all(None if tenant is None else tenant_or_all(tenant))
    show_keys(keys_json(found, now), now, tenant, as_json=as_json)


def show_keys(found: Mapping[str, Any], now: datetime, tenant: str | None, *, as_json: bool) -> None:
    """Write a list of keys: of one tenant, or of all that the caller may see."""
    if as_json:
        output.as_json(dict(found))
    elif found["keys"]:
        columns = ("ID", "NAME", "TENANT", "USER", "SCOPES", "STATE", "EXPIRES", "LAST USED")
        output.table(columns, (_row(key, now) for key in found["keys"]), spare=("LAST USED",))
    else:
        named = None if tenant == ALL_TENANTS else tenant
        none, of = (f"{named!r} has no API key", f" --tenant {quote(named)}") if named else ("There is no API key", "")
        output.say(f"{none}. `duetime keys create laptop{of}` creates one.")


def revoke(
    context: typer.Context,
    key_id: Annotated[str | None, typer.Argument(metavar="[ID]", help="the key, by its id or its name")] = None,
    *,
    tenant: Annotated[str | None, typer.Option(help="revoke every key of this tenant instead")] = None,
    reason: AuditReason = None,
) -> None:
    """Revoke an API key, or all of a tenant; the next call with it is refused."""
    if (key_id is None) == (tenant is None):
        raise InvalidArgument(
            "key_id", "expected the id of a key, or --tenant", example="duetime keys revoke 7k3m9qx2w4hb"
        )
    with session(context).store(create=True) as store:
        if tenant is not None:
            tenant = one_tenant(tenant)
            act = AuditEntry.by(cli_caller(), AuditKind.KEY_REVOKED, tenant=tenant, reason=reason)
            count = store.api_keys.revoke_tenant(tenant, act)
            output.say(f"Revoked {count} key{'s' if count != 1 else ''} of {tenant}.")
            return
        key = _key_of(store, key_id or "")
        store.api_keys.revoke(key.id, _entry(AuditKind.KEY_REVOKED, key, reason))
    say_revoked(key.id, key.name)


def say_revoked(key_id: str, name: str) -> None:
    output.say(f"Revoked {key_id} ({name}). The next call with it is refused.")


def rotate(
    context: typer.Context,
    key_id: KeyId,
    *,
    overlap: Annotated[str, typer.Option(help="for how long the old key stays valid: '24 hours'")] = "24 hours",
    reason: AuditReason = None,
    as_json: AsJson = False,
) -> None:
    """Replace an API key by a new one of the same principal; the old one stays valid for the overlap."""
    length = overlap_of(overlap)
    text = KeyText.new()
    with session(context).store(create=True) as store:
        now, key = store.now(), _key_of(store, key_id)
        act = _entry(AuditKind.KEY_ROTATED, key, reason)
        old, new = store.api_keys.replace(key.id, partial(successor, text, now), overlap=length, act=act)
    show_new(new_key_json(new, text.text, now, replaced=old), now, as_json=as_json)


def _entry(kind: AuditKind, key: ApiKey, reason: str | None, detail: dict[str, Json] | None = None) -> AuditEntry:
    return AuditEntry.by(cli_caller(), kind, key.id, tenant=key.tenant, reason=reason, detail=detail)


def _key_of(store: Store, text: str) -> ApiKey:
    """Return the key that a text means. Raises KeyNotFound, and InvalidArgument for a name of several."""
    now = store.now()
    key_id = meant_key(text, lambda: [(key.id, key.name, key.state(now)) for key in store.api_keys.all()])
    found = store.api_keys.find(key_id)
    if found is None:
        raise KeyNotFound(key_id)
    return found


def meant_key(text: str, keys: Callable[[], Iterable[tuple[str, str, str]]]) -> str:
    """Return the id of the key that a text means: an id, a whole key, or a name that one key alone has.

    `keys` gives id, name and state of each; an active key goes before others of its name. An error must not repeat the
    secret of a whole key. Raises InvalidArgument for a name of several.
    """
    whole = KeyText.parse(text.strip())
    if whole:
        return whole.id
    known = list(keys())
    named = [(key_id, state) for key_id, name, state in known if name == text]
    if not named or any(key_id == text for key_id, _, _ in known):
        return text
    found = [key_id for key_id, state in named if state == "active"] or [key_id for key_id, _ in named]
    if len(found) > 1:
        many = f"{len(found)} keys have the name {text[:40]!r}: {', '.join(found[:MAX_NAMESAKES_SHOWN])}"
        raise InvalidArgument("key_id", many, accepted="the id of one of them", example=found[0])
    return found[0]


def show_new(key: Mapping[str, Any], now: datetime, *, as_json: bool) -> None:
    """Write a new key, which is the only time, and when the one ends that it replaces."""
    if as_json:
        output.as_json(dict(key))
        return
    output.say(key["key"])
    output.note(
        f"This is shown only once: store it now. Key {key['id']} ({key['name']}) of {key['user']}, tenant "
        f"{key['tenant']}, may use {', '.join(key['scopes'])} and ends {_ends(key.get('expires_at'), now)}. Send it as "
        "`Authorization: Bearer <key>`."
    )
    if key.get("replaces"):
        output.note(f"The old key {key['replaces']} ends {_ends(key.get('overlap_until'), now)}.")


def _ends(at: str | None, now: datetime) -> str:
    if at is None:
        return NEVER_EXPIRES
    instant = datetime.fromisoformat(at)
    rounded = now - (_HALF_AN_HOUR if instant - now >= _ONE_DAY else timedelta(0))
    return times.relative(instant, rounded) if instant > now else "now"


def _row(key: Mapping[str, Any], now: datetime) -> tuple[str, ...]:
    used = (
        times.relative(datetime.fromisoformat(key["last_used_at"]), now) if key.get("last_used_at") else NEVER_EXPIRES
    )
    facts = (key["id"], key["name"], key["tenant"], key["user"], ",".join(key["scopes"]), key["state"])
    return (*facts, _ends(key.get("expires_at"), now) if key["state"] == "active" else "-", used)
