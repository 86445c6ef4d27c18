"""The verbs of administrators on another machine: secrets, audit, policy, retention, alerts."""

from __future__ import annotations

import time
from collections import Counter
from datetime import UTC, datetime
from typing import Any, Final

from duetime.scheduler.principal import ALL_TENANTS
from duetime.server.cli.access import audit, secrets
from duetime.server.cli.formats.csv_pages import wants_every_page, write_every_page
from duetime.server.cli.order import policy
from duetime.server.cli.past.pages import PagePlace, full_page
from duetime.server.cli.remote.client import RemoteAnswer, RemoteProblem, RemoteServer
from duetime.server.cli.remote.tables import CONTEXT, zone_of
from duetime.server.cli.remote.tasks import Params, reason_of
from duetime.server.cli.reports.alerts import show_alerts
from duetime.server.cli.reports.top import watch
from duetime.server.cli.storage import retention
from duetime.tools.admin.audit_rows import AUDIT_COLUMNS, read_heads
from duetime.tools.admin.secret_rows import read_hosts

PATIENCE_S: Final = 600.0
"""Seconds for a verb that reads or deletes many rows."""

MAX_PAGE_ENTRIES: Final = 100
"""Entries of the audit log that a server gives at once; the verb takes more."""


def _now() -> datetime:
    return datetime.now(UTC)


def _tenant(params: Params) -> dict[str, str]:
    """Return the tenant that is named; without one, the server takes the caller's own."""
    return {} if params["tenant"] is None else {"tenant": params["tenant"]}


def secrets_set(server: RemoteServer, params: Params) -> None:
    """Store a secret."""
    name, hosts = params["name"], read_hosts(params["host"] or ())
    body = {"value": secrets.value_of(name), "hosts": list(hosts), **_tenant(params), **reason_of(params)}
    found = server.send("PUT", _secret(name), body)["secrets"]
    secrets.say_set(name, next(each["tenant"] for each in found if each["name"] == name), hosts)


def secrets_list(server: RemoteServer, params: Params) -> None:
    """List secrets."""
    found, everywhere = server.get("/secrets", **_tenant(params)), params["tenant"] == ALL_TENANTS
    secrets.show_secrets(found, _now(), everywhere=everywhere, as_json=params["as_json"])


def secrets_remove(server: RemoteServer, params: Params) -> None:
    """Remove a secret."""
    server.delete(_secret(params["name"]), **_tenant(params), **reason_of(params))
    secrets.say_removed(params["name"])


def secrets_rotate(server: RemoteServer, params: Params) -> None:
    """Encrypt secrets again."""
    done = server.post("/secrets/rotate", reason_of(params))
    unreadable = [f"{each['name']} of {each['tenant']}" for each in done["unreadable"]]
    secrets.say_rotated(done["encrypted"], unreadable, done.get("workers_without_key", ()))


def _secret(name: str) -> str:
    return f"/secrets/{name}"


def audit_list(server: RemoteServer, params: Params) -> None:
    """List audit entries."""
    kind = params["kind"].value if params["kind"] else None
    names = ("actor", "surface", "subject", "since", "until")
    where = {name: params[name] for name in names} | {"kind": kind}

    def read(limit: int, cursor: str | None) -> RemoteAnswer:
        bounds = {"limit": min(limit, MAX_PAGE_ENTRIES), "cursor": cursor}
        return server.get("/audit", **where, **bounds, **_tenant(params))

    if wants_every_page(params[CONTEXT]):
        write_every_page(params[CONTEXT], read, "entries", AUDIT_COLUMNS)
        return
    page = full_page(read, "entries", PagePlace(params["limit"], params["cursor"]))
    audit.show_page(page, zone_of(params), as_json=params["as_json"], as_csv=params["as_csv"])


def audit_head(server: RemoteServer, params: Params) -> None:
    """Show the ends of audit chains."""
    audit.show_heads(server.get("/audit/heads", **_tenant(params)), as_json=params["as_json"])


def audit_verify(server: RemoteServer, params: Params) -> None:
    """Verify audit chains."""
    heads = [f"{head.tenant}:{head.entries}:{head.hash}" for head in read_heads(params["head"] or (), None)]
    began = time.monotonic()
    body = {**({"heads": heads} if heads else {}), **_tenant(params)}
    found = server.patiently(PATIENCE_S).post("/audit/verify", body)
    audit.show_verdicts(found, time.monotonic() - began, as_json=params["as_json"])


def policy_show(server: RemoteServer, params: Params) -> None:
    """Show the policy in force."""
    policy.show_policy(server.get("/policy"), zone_of(params), as_json=params["as_json"])


def policy_set(server: RemoteServer, params: Params) -> None:
    """Change the policy."""
    body = {"policy": dict(policy.read_changes(params["changes"])), **_how(params)}
    policy.show_change(server.send("PATCH", "/policy", body), as_json=params["as_json"])


def policy_history(server: RemoteServer, params: Params) -> None:
    """List the versions of the policy."""
    policy.show_history(server.get("/policy/versions"), zone_of(params), as_json=params["as_json"])


def policy_rollback(server: RemoteServer, params: Params) -> None:
    """Make an earlier version of the policy the newest one."""
    body = {"version": params["version"], **_how(params)}
    policy.show_change(server.post("/policy/rollback", body), as_json=params["as_json"])


def _how(params: Params) -> dict[str, Any]:
    return {**reason_of(params), "dry_run": params["dry_run"]}


def retention_status(server: RemoteServer, params: Params) -> None:
    """List the rules of retention."""
    retention.show_status(server.get("/retention"), _now(), as_json=params["as_json"])


def retention_run(server: RemoteServer, params: Params) -> None:
    """Delete what the rules allow to be deleted: request by request, since one lasts for seconds."""
    only = {"only": [kind.value for kind in params["only"]]} if params["only"] else {}
    rules = server.get("/retention")["rules"]
    if not any(rule["what"] in only.get("only", [rule["what"]]) for rule in rules):
        why = retention.NO_RULE_OF_KIND if rules else retention.NO_RULES_THERE
        retention.show_nothing(why, dry_run=params["dry_run"], as_json=params["as_json"])
        return
    patient, body = server.patiently(PATIENCE_S), {"dry_run": params["dry_run"], **only, **reason_of(params)}
    done = patient.post("/retention/run", body)
    try:
        while not done["complete"]:
            done = _together(done, patient.post("/retention/run", body))
    except RemoteProblem:  # what the requests before it deleted is gone all the same
        retention.write_run(done, as_json=params["as_json"])
        raise
    retention.show_run(done, as_json=params["as_json"])


def _together(one: RemoteAnswer, other: RemoteAnswer) -> RemoteAnswer:
    kinds = {*one["rows"], *other["rows"]}
    rows = {kind: dict(Counter(one["rows"].get(kind, {})) + Counter(other["rows"].get(kind, {}))) for kind in kinds}
    longest = max(one["longest_batch_seconds"], other["longest_batch_seconds"])
    return {**other, "rows": rows, "longest_batch_seconds": longest}  # the last one tried every kind again


def alerts(server: RemoteServer, params: Params) -> None:
    """List alerts."""
    show_alerts(server.get("/alerts"), _now(), as_json=params["as_json"])


def top(server: RemoteServer, params: Params) -> None:
    """Show live statistics."""
    once, as_json = params["once"], params["as_json"]
    watch(lambda: server.get("/top"), zone_of(params), params["interval"], once=once, as_json=as_json)
