"""The verbs of recorded decisions, and of the shadow policy, on another machine."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from duetime.server.cli import output
from duetime.server.cli.order.shadow import read_shadow, say_off, show_shadow
from duetime.server.cli.remote.client import RemoteServer
from duetime.server.cli.remote.tables import RemoteTable, show_rows, zone_of
from duetime.server.cli.remote.tasks import Params, found_id

_SHOWN: Final = ("at", "tier", "outcome", "reason", "task_id", "id")
DECISIONS: Final = RemoteTable("decisions", _SHOWN, _SHOWN)


def decisions_list(server: RemoteServer, params: Params) -> None:
    """List recorded decisions."""
    task_id = found_id(server, params["task"]) if params["task"] else None
    where = {name: params[name] for name in ("tenant", "limit", "cursor")}
    show_rows(DECISIONS, server.get("/decisions", task_id=task_id, **where), params, nothing="No decisions.")


def decisions_show(server: RemoteServer, params: Params) -> None:
    """Show one decision in words."""
    found = server.get(f"/decisions/{quote(params['decision_id'], safe='')}", tenant=params["tenant"])
    if params["as_json"]:
        output.as_json(found)
        return
    output.say(f"{found['id']}, {found['at']}, task {found['task_id']}")
    for line in found["why"]:
        output.say(f"  {line}")


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
