"""The verbs of recorded decisions, and of the shadow policy, on another machine."""

from __future__ import annotations

from urllib.parse import quote

from duetime.server.cli.order.decisions import show_decision, show_decisions
from duetime.server.cli.order.shadow import read_shadow, say_off, show_shadow
from duetime.server.cli.remote.client import RemoteServer
from duetime.server.cli.remote.tables import zone_of
from duetime.server.cli.remote.tasks import Params, found_id


def decisions_list(server: RemoteServer, params: Params) -> None:
    """List recorded decisions."""
    task_id = found_id(server, params["task"]) if params["task"] else None
    where = {name: params[name] for name in ("tenant", "limit", "cursor")}
    show_decisions(server.get("/decisions", task_id=task_id, **where), zone_of(params), as_json=params["as_json"])


def decisions_show(server: RemoteServer, params: Params) -> None:
    """Show one decision in words."""
    found = server.get(f"/decisions/{quote(params['decision_id'], safe='')}", tenant=params["tenant"])
    show_decision(found, zone_of(params), as_json=params["as_json"])


def policy_shadow(server: RemoteServer, params: Params) -> None:
    """Set, show or end the shadow policy."""
    body, as_json = read_shadow(params["changes"] or (), off=params["off"]), params["as_json"]
    if params["off"]:
        server.delete("/policy/shadow")
        say_off(as_json=as_json)
    elif body:
        reason = {"reason": params["reason"]} if params["reason"] else {}
        show_shadow(server.send("PUT", "/policy/shadow", {**body, **reason}), zone_of(params), as_json=as_json)
    else:
        show_shadow(server.get("/policy/shadow"), zone_of(params), as_json=as_json)
