"""The verbs of recorded decisions on another machine."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from duetime.server.cli import output
from duetime.server.cli.remote.client import RemoteServer
from duetime.server.cli.remote.tables import RemoteTable, show_rows
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
