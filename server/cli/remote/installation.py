"""The verbs of an installation on another machine: inbox, pools, statistics and keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.history.costs import CostGroup
from duetime.server.auth.key_format import KeyText
from duetime.server.cli import output
from duetime.server.cli.formats.option_values import read_object
from duetime.server.cli.remote.client import RemoteAnswer, RemoteServer
from duetime.server.cli.remote.tables import RemoteTable, show_rows
from duetime.server.cli.remote.tasks import Params, found_id
from duetime.server.cli.reports.cost import COLUMNS as COST_COLUMNS
from duetime.server.cli.reports.cost import NOTHING as NO_COSTS
from duetime.server.cli.reports.cost import show_costs

MESSAGES: Final = RemoteTable(
    "messages", ("at", "id", "task_id", "title", "state", "text"), ("at", "task_id", "title", "state", "text")
)
POOLS: Final = RemoteTable("pools", ("pool", "declaration"), ("pool", "declaration"))
TIERS: Final = RemoteTable(
    "tiers", ("tier", "waiting", "share", "bound", "late"), ("tier", "waiting", "share", "bound", "late")
)
POOL_USE: Final = RemoteTable("pools", ("pool", "state", "used"), ("pool", "state", "used", "spent", "free", "parked"))
KEYS: Final = RemoteTable(
    "keys",
    ("id", "name", "tenant", "user", "scopes", "state", "expires_at", "last_used_at"),
    ("id", "name", "tenant", "user", "scopes", "state", "expires_at", "last_used_at"),
)
COSTS: Final = RemoteTable("costs", (*COST_COLUMNS, "currency"), COST_COLUMNS)


def cost(server: RemoteServer, params: Params) -> None:
    """Add up what runs cost."""
    bounds = {name: params[name] for name in ("since", "until", "tenant")}
    found = server.get("/costs", group=_word(params["by"]), **bounds)
    rows = [{**row, "currency": found["currency"]} for row in found["costs"]]
    if rows and not params["as_json"] and not params["as_csv"]:
        show_costs(CostGroup(found["group"]), rows, f"{found['total']} {found['currency']}")
    else:
        show_rows(COSTS, found if params["as_json"] else {"costs": rows}, params, nothing=NO_COSTS)


def report(server: RemoteServer, params: Params) -> None:
    """Report what was missed, how late, and what it cost: of the tenant of the key unless another one is named."""
    found = server.get("/report", since=params["since"], tenant=params["tenant"])
    if params["as_json"]:
        output.as_json(found)
        return
    for line in found["text"]:
        output.say(line)


def _word(value: Any) -> str:
    return str(getattr(value, "value", value))


def inbox_list(server: RemoteServer, params: Params) -> None:
    """List unread outcomes."""
    show_rows(MESSAGES, server.get("/inbox", limit=params["limit"]), params, nothing="Nothing is unread.")


def inbox_read(server: RemoteServer, params: Params) -> None:
    """Show outcomes and mark them as read."""
    tasks: list[str | None] = [found_id(server, text) for text in params["ids"] or ()]
    pages = [server.get("/inbox", limit=params["limit"], task_id=task_id) for task_id in tasks or [None]]
    messages = [message for page in pages for message in page.get("messages") or ()]
    ids = [message["id"] for message in messages]
    left = server.post("/inbox/read", {"ids": ids})["unread_count"] if ids else pages[-1]["unread_count"]
    shown = {"schema": pages[0]["schema"], "messages": messages, "unread_count": left}
    show_rows(MESSAGES, shown, params, nothing="Nothing is unread.")


def inbox_done(server: RemoteServer, params: Params) -> None:
    """Mark outcomes as done without showing them."""
    if bool(params["ids"]) is params["every"]:
        raise InvalidArgument("ID", "name tasks, or say --all", accepted="one of both", example="--all")
    bodies: list[Mapping[str, Any]] = [{"task_id": found_id(server, text)} for text in params["ids"] or ()]
    answers = [server.post("/inbox/read", body) for body in bodies or [{"all": True}]]
    done, left = sum(answer["done"] for answer in answers), answers[-1]["unread_count"]
    if params["as_json"]:
        output.as_json({**answers[-1], "done": done})
    else:
        output.say(f"{done} outcome{'' if done == 1 else 's'} done. {left} unread.")


def stats(server: RemoteServer, params: Params) -> None:
    """Count waiting runs by tier, and show the use of pools."""
    found = server.get("/stats")
    show_rows(TIERS, found, params, nothing="No tiers.")
    if not params["as_json"]:
        output.say(f"{found['leased']} running or about to start, {found['parked']} held by a pool")
        uses = [{"pool": name, **use} for name, use in found["pools"].items()]
        show_rows(POOL_USE, {"pools": uses}, params, nothing="No pool is declared.")


def pools_list(server: RemoteServer, params: Params) -> None:
    """List the declared pools."""
    found = server.get("/pools")
    rows = [{"pool": name, "declaration": spec} for name, spec in found["pools"].items()]
    show_rows(POOLS, found if params["as_json"] else {"pools": rows}, params, nothing="No pool is declared.")


def pools_set(server: RemoteServer, params: Params) -> None:
    """Create or change a pool."""
    server.send("PUT", f"/pools/{params['name']}", {"spec": read_object(params["spec"])})
    output.say(f"Set {params['name']}.")


def pools_remove(server: RemoteServer, params: Params) -> None:
    """Remove a pool."""
    server.send("DELETE", f"/pools/{params['name']}", None)
    output.say(f"Removed {params['name']}. Tasks that need it are held until it is declared again.")


def keys_list(server: RemoteServer, params: Params) -> None:
    """List API keys."""
    show_rows(KEYS, server.get("/keys", tenant=params["tenant"]), params, nothing="There is no API key.")


def keys_create(server: RemoteServer, params: Params) -> None:
    """Create an API key; its tenant and user are the caller's unless others are named."""
    asked = {
        "name": params["name"],
        "expires": params["expires"],
        "scopes": list(map(_word, params["scope"] or ["tasks"])),
    }
    _show_key(server.post("/keys", asked | _owner(params)), params)


def _owner(params: Params) -> dict[str, str]:
    return {name: params[name] for name in ("tenant", "user") if params[name] != "local"}


def keys_revoke(server: RemoteServer, params: Params) -> None:
    """Revoke an API key."""
    if not params["key_id"] or params["tenant"]:
        raise InvalidArgument("key_id", "expected the id of one key", example="duetime keys revoke 7k3m9qx2w4hb")
    key_id = _key_id(params["key_id"])
    server.post(f"/keys/{key_id}/revoke", {})
    output.say(f"Revoked {key_id}. The next call with it is refused.")


def keys_rotate(server: RemoteServer, params: Params) -> None:
    """Replace an API key."""
    _show_key(server.post(f"/keys/{_key_id(params['key_id'])}/rotate", {"overlap": params["overlap"]}), params)


def _key_id(text: str) -> str:
    """Return the id in the text of a whole key: its secret must not be part of an address."""
    key = KeyText.parse(text.strip())
    return key.id if key else text


def _show_key(key: RemoteAnswer, params: Params) -> None:
    if params["as_json"]:
        output.as_json(key)
        return
    output.say(key["key"])
    output.note(
        f"This is shown only once: store it now. Key {key['id']} ({key['name']}) of {key['user']}, "
        f"tenant {key['tenant']}."
    )
