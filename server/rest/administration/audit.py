"""The audit log: its entries, the ends of its chains, and their verification."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Final, Literal

from duetime.scheduler.audit.entry import AuditFilter, AuditKind
from duetime.scheduler.principal import Scope
from duetime.server.rest.operation import Operation, RestAnswer, RestCall
from duetime.server.rest.resources.history import CURSOR, LIMIT, TENANT, of_all_tenants, reader_of, tenant_of
from duetime.server.rest.resources.payloads import RestPayload
from duetime.server.settings.options import rules_of_audit
from duetime.tools.admin.audit_rows import heads_json, page_json, read_heads, verdicts_json
from duetime.tools.arguments.arguments import Argument
from duetime.tools.arguments.choices import Choice
from duetime.tools.arguments.types import Text, Texts
from duetime.tools.definition import TIME
from pydantic import Field

MAX_HEADS: Final = 100


class AuditEntryPayload(RestPayload):
    """An act of a caller: who did what to which `subject`, by which way, and why; `detail` never has a secret."""

    id: int
    at: str | None = None
    tenant: str
    kind: str
    actor: str
    actor_tenant: str | None = None
    via: str | None = None
    subject: str | None = None
    reason: str | None = None
    detail: dict[str, Any] | None = None


class AuditPayload(RestPayload):
    """One page of audit entries, newest first."""

    schema_: Annotated[Literal["duetime.audit/1"], Field(alias="schema")] = "duetime.audit/1"
    entries: tuple[AuditEntryPayload, ...]
    cursor: str | None = None


class HeadPayload(RestPayload):
    """The end of a chain: kept elsewhere, it stands for all entries up to it."""

    tenant: str
    entries: int
    hash: str


class HeadsPayload(RestPayload):
    """The ends of audit chains."""

    schema_: Annotated[Literal["duetime.audit_heads/1"], Field(alias="schema")] = "duetime.audit_heads/1"
    heads: tuple[HeadPayload, ...]


class BreakPayload(RestPayload):
    """The first entry of a chain that is not as it was sealed, and what is wrong."""

    entry: int
    wrong: str


class RemovalPayload(RestPayload):
    """The events that retention deleted on a day, in UTC, as it recorded.

    `too_young` of them were younger than its rules allow to be deleted. Somebody else deleted them, or the settings do
    not name a shorter rule of that day.
    """

    day: str
    events: int
    too_young: int


class VerdictPayload(HeadPayload):
    """A chain: `checked` entries were compared with their rows, `removed` events were deleted by retention.

    `removals` lists these by the day of their record. `pending` rows are not sealed yet; `unkeyed` entries were sealed
    before there was a key. A `broken` one is not as it was sealed. It `holds` unless it is broken or any of `removed`
    were `too_young`.
    """

    holds: bool
    checked: int
    removed: int
    too_young: int
    removals: tuple[RemovalPayload, ...]
    pending: int
    unkeyed: int
    broken: BreakPayload | None = None


class VerdictsPayload(RestPayload):
    """The results of verifications."""

    schema_: Annotated[Literal["duetime.audit_verdicts/1"], Field(alias="schema")] = "duetime.audit_verdicts/1"
    chains: tuple[VerdictPayload, ...]


def entries(call: RestCall) -> RestAnswer:
    """Return a page of the audit log of a tenant."""
    by, names = reader_of(call), ("actor", "surface", "kind", "subject")
    where = AuditFilter(**{name: call.values[name] for name in names if name in call.values})
    bounds: dict[str, Any] = {name: call.values.get(name) for name in ("since", "until", "cursor")}
    page = call.scheduler.past.audit(where, **bounds, limit=call.values.get("limit", 50), by=by)
    return RestAnswer(AuditPayload.model_validate(page_json(page)), cursor=page.cursor)


def heads(call: RestCall) -> RestAnswer:
    """Seal what is in no chain yet, and return the end of a tenant's chain, or of each."""
    tenant, chain = tenant_of(call), call.parts.store.audit_chain
    while chain.seal(durable=True):
        pass
    return RestAnswer(HeadsPayload.model_validate(heads_json(chain.heads(tenant), _named(call))))


def verify(call: RestCall) -> RestAnswer:
    """Verify the chain of a tenant, or each."""
    tenant = tenant_of(call)
    kept, rules = read_heads(call.values.get("heads", ()), tenant), rules_of_audit(call.parts.settings)
    found = call.parts.store.audit_chain.verify_alone(tenant, anchors=kept, rules=rules)
    return RestAnswer(VerdictsPayload.model_validate(verdicts_json(found, _named(call))))


def _named(call: RestCall) -> str | None:
    """Return the one tenant that a request names."""
    return None if of_all_tenants(call) else call.values.get("tenant")


_FILTERS = (
    Argument("actor", Text(200), "Only what this user did"),
    Argument("surface", Text(200), "Only by this way: mcp, rest, admin, cli, python, stdio", "surface='rest'"),
    Argument("kind", Choice(tuple(AuditKind)), "Only entries of this kind", "kind='pool_set'"),
    Argument("subject", Text(200), "Only what was done to this key, pool, secret, run", "subject='gpu'"),
    Argument("since", TIME, "From this time on: 'friday', 'last night'", "since='yesterday'"),
    Argument("until", TIME, "Before this time", "until='yesterday'"),
)
OF_AUDIT = (
    Operation(
        "list_audit_entries",
        "GET",
        "/audit",
        "List what callers did apart from task changes, newest first",
        entries,
        AuditPayload,
        Scope.ADMIN_READ,
        in_query=(*_FILTERS, TENANT, LIMIT, CURSOR),
        paged=True,
    ),
    Operation(
        "list_audit_heads",
        "GET",
        "/audit/heads",
        "Show the end of each audit chain, to be kept elsewhere",
        heads,
        HeadsPayload,
        Scope.ADMIN_READ,
        in_query=(TENANT,),
        statuses=(HTTPStatus.NOT_FOUND,),
    ),
    Operation(
        "verify_audit",
        "POST",
        "/audit/verify",
        "Verify audit chains: nothing that was sealed is changed, deleted, added or moved",
        verify,
        VerdictsPayload,
        Scope.ADMIN_READ,
        body=(
            Argument("heads", Texts(MAX_HEADS), "Heads that were kept of this tenant, each as TENANT:ENTRIES:HASH"),
            TENANT,
        ),
        statuses=(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    ),
)
