"""API keys of a tenant: list, create, revoke and rotate. The text of a key is in one answer alone."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import Annotated, Literal

from duetime.scheduler.access.api_key import ApiKey, KeyNotFound
from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.principal import Principal, Scope
from duetime.scheduler.task import Json
from duetime.server.auth.access import only_operators
from duetime.server.auth.issued_keys import (
    USUAL_OVERLAP,
    USUAL_VALIDITY,
    new_key,
    overlap_of,
    successor,
    validity_of,
)
from duetime.server.auth.key_format import KeyText
from duetime.server.rest.operation import Operation, RestAnswer, RestCall
from duetime.server.rest.resources.history import TENANT, tenant_of
from duetime.server.rest.resources.installation import REASON
from duetime.server.rest.resources.payloads import RestPayload
from duetime.server.rest.rows.keys import keys_json, new_key_json
from duetime.tools.arguments.arguments import Argument
from duetime.tools.arguments.choices import Choices
from duetime.tools.arguments.types import Text
from pydantic import Field


class KeyPayload(RestPayload):
    """An API key without its secret; `state` is active, expired or revoked."""

    id: str
    name: str
    tenant: str
    user: str
    scopes: tuple[str, ...]
    state: str
    created_at: str
    expires_at: str | None = None
    revoked_at: str | None = None
    last_used_at: str | None = None


class KeysPayload(RestPayload):
    """The API keys of a tenant, revoked and expired ones included."""

    schema_: Annotated[Literal["duetime.keys/1"], Field(alias="schema")] = "duetime.keys/1"
    keys: tuple[KeyPayload, ...]


class NewKeyPayload(KeyPayload):
    """A new API key: `key` is its text, which is shown only once. `replaces` ends at `overlap_until`."""

    schema_: Annotated[Literal["duetime.key/1"], Field(alias="schema")] = "duetime.key/1"
    key: str
    replaces: str | None = None
    overlap_until: str | None = None


def keys(call: RestCall) -> RestAnswer:
    """Return the keys of a tenant, or of all for an operator."""
    return _listed(call, tenant_of(call))


def _listed(call: RestCall, tenant: str | None) -> RestAnswer:
    store = call.parts.store
    return RestAnswer(KeysPayload.model_validate(keys_json(store.api_keys.all(tenant), store.now())))


def create(call: RestCall) -> RestAnswer:
    """Create a key of the caller's tenant, or of another one for an operator."""
    given, store = call.values, call.parts.store
    tenant = given.get("tenant", call.by.tenant)
    _check_may_change(call, tenant)
    owner = Principal(tenant, given.get("user", call.by.user), frozenset(given.get("scopes", (Scope.TASKS,))))
    now = store.now()
    text, key = new_key(owner, given["name"], now, validity_of(given.get("expires", USUAL_VALIDITY)))
    row: dict[str, Json] = {"name": key.name, "user": key.user, "scopes": list(key.scopes)}
    store.api_keys.add(key, _entry(call, AuditKind.KEY_CREATED, key, row))
    return RestAnswer(NewKeyPayload.model_validate(new_key_json(key, text.text, now)), HTTPStatus.CREATED)


def revoke(call: RestCall) -> RestAnswer:
    """Revoke a key at once and for ever."""
    key = _own(call)
    call.parts.store.api_keys.revoke(key.id, _entry(call, AuditKind.KEY_REVOKED, key))
    return _listed(call, key.tenant)


def rotate(call: RestCall) -> RestAnswer:
    """Replace a key by a new one of the same principal."""
    length, text, store = overlap_of(call.values.get("overlap", USUAL_OVERLAP)), KeyText.new(), call.parts.store
    now, key = store.now(), _own(call)
    act = _entry(call, AuditKind.KEY_ROTATED, key)
    old, new = store.api_keys.replace(key.id, partial(successor, text, now), overlap=length, act=act)
    payload = NewKeyPayload.model_validate(new_key_json(new, text.text, now, replaced=old))
    return RestAnswer(payload, HTTPStatus.CREATED)


def _own(call: RestCall) -> ApiKey:
    """Return the key that the path names. One of another tenant is as unknown as one that there is not."""
    key_id: str = call.values["key_id"]
    found = call.parts.store.api_keys.find(key_id)
    if found is None or not call.by.may_change_all_of(found.tenant):
        raise KeyNotFound(key_id)
    return found


def _check_may_change(call: RestCall, tenant: str) -> None:
    if not call.by.may_change_all_of(tenant):
        raise only_operators(Scope.ADMIN)


def _entry(call: RestCall, kind: AuditKind, key: ApiKey, detail: dict[str, Json] | None = None) -> AuditEntry:
    reason = call.values.get("reason")
    return AuditEntry.by(call.by, kind, key.id, tenant=key.tenant, reason=reason, detail=detail)


_KEY_ID = Argument("key_id", Text(40), "The public id of a key, as the list shows it", required=True)
OF_KEYS = (
    Operation(
        "list_keys",
        "GET",
        "/keys",
        "List the API keys of a tenant, or of all for an operator",
        keys,
        KeysPayload,
        Scope.ADMIN_READ,
        in_query=(TENANT,),
    ),
    Operation(
        "create_key",
        "POST",
        "/keys",
        "Create an API key; the answer alone has its text",
        create,
        NewKeyPayload,
        Scope.ADMIN,
        body=(
            Argument("name", Text(200), "Purpose of the key", "name='laptop'", required=True),
            Argument("user", Text(200), "The user in whose name it acts; default: the caller", "user='ann'"),
            Argument("scopes", Choices(tuple(Scope)), "Default tasks", "scopes=['tasks']"),
            Argument("expires", Text(60), "After what time it ends; default 365 days", "expires='90 days'"),
            REASON,
            TENANT,
        ),
        created=True,
    ),
    Operation(
        "revoke_key",
        "POST",
        "/keys/{key_id}/revoke",
        "Revoke an API key; the next call with it is refused",
        revoke,
        KeysPayload,
        Scope.ADMIN,
        in_path=(_KEY_ID,),
        body=(REASON,),
    ),
    Operation(
        "rotate_key",
        "POST",
        "/keys/{key_id}/rotate",
        "Replace an API key; the old one stays valid for the overlap",
        rotate,
        NewKeyPayload,
        Scope.ADMIN,
        in_path=(_KEY_ID,),
        body=(Argument("overlap", Text(60), "Default 24 hours", "overlap='1 hour'"), REASON),
        created=True,
        statuses=(HTTPStatus.CONFLICT,),
    ),
)
