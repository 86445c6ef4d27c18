"""The audit: what callers did, by which surface and address, the changes of tasks, and the state of the hash chain."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from duetime.scheduler.audit.entry import AuditEntry, AuditFilter, AuditKind
from duetime.scheduler.errors import Refused
from duetime.scheduler.events import Event, EventKind
from duetime.scheduler.intake.bounds import Bounds
from duetime.scheduler.rules.redact import redacted_json
from duetime.scheduler.task import State, Tier
from duetime.server.admin.answers import LIST_PARAMETERS, PAGE_ROWS, Answer, Page, get
from duetime.server.admin.export import ExportRow, PageOf, exported, first_rows, wanted_format
from duetime.server.admin.failures import refuse_unknown_parameters, unknown
from duetime.server.admin.page_request import Visit
from duetime.server.settings.options import rules_of_audit
from duetime.tools.admin.audit_rows import AUDIT_COLUMNS, read_heads
from duetime.tools.admin.event_filter import event_filter
from duetime.tools.admin.run_rows import SPAN_ARGUMENTS

MAX_VERIFIED_ENTRIES: Final = 1_000_000
"""Entries of a chain that a browser can wait for; a longer one is verified on the command line."""

CHANGE_COLUMNS: Final = (
    *("id", "at", "tenant", "task", "run", "kind", "actor", "via", "reason", "from", "to", "before", "after"),
)
_SURFACES: Final = ("mcp", "rest", "admin", "cli", "python", "stdio")
_TABS: Final = ((None, "acts of callers", None), ("tasks", "changes of tasks", None))

_TEXTS = {"who": "actor", "surface": "surface", "subject": "subject"}
"""Parameters of the address, and the conditions of the filter that they set."""

_OF_EVENTS = {
    "q": "text",
    "who": "actor",
    "surface": "via",
    "task": "task_id",
    **{name: name for name in ("kind", "state", "title", "action", "label", "priority", "worker", "error")},
    **{name: name for name in ("min_attempts", "min_cost", *SPAN_ARGUMENTS)},
}
"""The same of the changes of tasks."""

_OF_LIST: Final = LIST_PARAMETERS | {"list"}
_OF_ENTRIES: Final = frozenset({*_TEXTS, "kind"})
_OF_ONE_TAB: Final = dict.fromkeys({*_TEXTS, *_OF_EVENTS, "kind"} - {"who", "surface"})
"""Parameters that the other tab has not, or has with other values."""


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """The rows that an address requests: those of one tenant, in one of two lists, between two times."""

    tenant: str
    bounds: Bounds
    read: PageOf[Any]
    columns: Sequence[str]
    row: Callable[[Any], ExportRow]

    @classmethod
    def of(cls, visit: Visit) -> AuditQuery:
        """Read the address; times are words or dates in the viewer's zone. Raises InvalidArgument."""
        query = visit.query
        since, until = (query.get(name, "").strip() or None for name in ("since", "until"))
        bounds = Bounds.of(query.get("cursor"), visit.now, visit.zone, since=since, until=until)
        tenant = visit.tenant or visit.principal.tenant
        refuse_unknown_parameters(visit, {*_OF_LIST, *(_OF_EVENTS if query.get("list") == "tasks" else _OF_ENTRIES)})
        if query.get("list") == "tasks":
            return cls(tenant, bounds, _events(visit, tenant, bounds), CHANGE_COLUMNS, _event_row)
        return cls(tenant, bounds, _entries(visit, tenant, bounds), AUDIT_COLUMNS, _entry_row)


def audit(visit: Visit) -> Answer:
    """Show a page of acts or of changes, or send all of them as a file."""
    query = AuditQuery.of(visit)
    if file_format := wanted_format(visit):
        found, cut_at = first_rows(query.read)
        file = exported(file_format, "audit", query.columns, map(query.row, found), cut_at=cut_at)
        return replace(file, tenant=query.tenant)
    rows, cursor = query.read(PAGE_ROWS, query.bounds.cursor)
    of_tasks = visit.query.get("list") == "tasks"
    values = {
        "rows": rows,
        "following": query.bounds.following(cursor),
        "of_tasks": of_tasks,
        "titles": _titles(visit, query.tenant, rows) if of_tasks else {},
        "tabs": _TABS,
        "of_one_tab": _OF_ONE_TAB,
        "kinds": [*(EventKind if of_tasks else AuditKind)],
        "states": [*State],
        "surfaces": _SURFACES,
        "tiers": [*Tier],
        "shown_tenant": query.tenant,
        "head": next(iter(visit.store.audit_chain.heads(query.tenant)), None),
        "filtered": bool({*visit.query} - {"list", "tenant", "cursor"}),
    }
    return Page("pages/audit.html", "Audit", values, tenant=query.tenant)


def _entries(visit: Visit, tenant: str, bounds: Bounds) -> PageOf[Any]:
    given: dict[str, Any] = {
        name: visit.query[key].strip() for key, name in _TEXTS.items() if visit.query.get(key, "").strip()
    }
    where = AuditFilter(**given, kind=_kind(visit), **bounds.instants)

    def read(limit: int, cursor: str | None) -> tuple[tuple[AuditEntry, ...], str | None]:
        page = visit.store.audit.page(tenant, where, limit=limit, cursor=cursor)
        return page.entries, page.cursor

    return read


def _kind(visit: Visit) -> str | None:
    word = visit.query.get("kind", "")
    if word and word not in {*AuditKind}:
        raise unknown("kind", word, AuditKind, example=AuditKind.LOGGED_IN)
    return word or None


def _events(visit: Visit, tenant: str, bounds: Bounds) -> PageOf[Any]:
    given = {name: visit.query.get(key, "").strip() or None for key, name in _OF_EVENTS.items()}
    where = replace(event_filter(**given), **bounds.instants)

    def read(limit: int, cursor: str | None) -> tuple[tuple[Event, ...], str | None]:
        page = visit.store.history.events(tenant, where, limit=limit, cursor=cursor)
        return page.events, page.cursor

    return read


def _titles(visit: Visit, tenant: str, rows: Sequence[Any]) -> Mapping[str, str]:
    return visit.store.tasks.titles(tenant, list({event.task_id for event in rows}))


def _entry_row(entry: AuditEntry) -> ExportRow:
    return {name: getattr(entry, name) for name in AUDIT_COLUMNS}


def _event_row(event: Event) -> ExportRow:
    return {
        "id": event.id,
        "at": event.at,
        "tenant": event.tenant,
        "task": event.task_id,
        "run": event.run_id,
        "kind": event.kind,
        "actor": event.actor,
        "via": event.via,
        "reason": event.reason,
        "from": event.from_state,
        "to": event.to_state,
        "before": redacted_json(event.before),
        "after": redacted_json(event.after),
    }


def verify(visit: Visit) -> Page:
    """Verify the chain of a tenant up to its head, which changes nothing. Raises Refused, InvalidArgument."""
    tenant, given = visit.tenant or visit.principal.tenant, visit.query.get("head", "").strip()
    kept = read_heads([given] if given else [], tenant)
    chain, began = visit.store.audit_chain, time.monotonic()
    if any(head.entries > MAX_VERIFIED_ENTRIES for head in chain.heads(tenant)):
        raise Refused(f"the chain has more than {MAX_VERIFIED_ENTRIES:,} entries: run `duetime audit verify`.")
    (found,) = chain.verify_alone(tenant, anchors=kept, rules=rules_of_audit(visit.app.settings))
    values = {"verdict": found, "kept": bool(kept), "seconds": time.monotonic() - began}
    return Page("pages/audit_verdict.html", "Verification", {**values, "shown_tenant": tenant}, tenant=tenant)


AUDIT_ROUTES = (
    get("/audit", audit, query={*_OF_LIST, *_OF_ENTRIES, *_OF_EVENTS}),
    get("/audit/verify", verify, query={"head"}),
)
