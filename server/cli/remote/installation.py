"""The verbs of an installation on another machine: inbox, pools, statistics and keys."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.foresight.readers.inbox import MESSAGE_ID_PREFIX
from duetime.server.cli import inbox, output, pools
from duetime.server.cli.access import keys
from duetime.server.cli.remote.client import RemoteServer
from duetime.server.cli.remote.tables import zone_of
from duetime.server.cli.remote.tasks import Params, found_id, reason_of
from duetime.server.cli.reports.cost import show_costs


def cost(server: RemoteServer, params: Params) -> None:
    """Add up what runs cost."""
    bounds = {name: params[name] for name in ("since", "until", "tenant")}
    found = server.get("/costs", group=_word(params["by"]), **bounds)
    show_costs(found, as_json=params["as_json"], as_csv=params["as_csv"])


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
    inbox.show_inbox(server.get("/inbox", limit=params["limit"]), zone_of(params), _now(), **_ways(params))


def inbox_read(server: RemoteServer, params: Params) -> None:
    """Show outcomes and mark them as read."""
    of: list[str | None] = [_named(server, text) for text in params["ids"] or ()]
    pages = [server.get("/inbox", limit=params["limit"], task_id=each) for each in of or [None]]
    messages = {message["id"]: message for page in pages for message in page["messages"]}
    left = server.post("/inbox/read", {"ids": [*messages]}) if messages else pages[-1]
    shown = {"schema": left["schema"], "messages": [*messages.values()], "unread_count": left["unread_count"]}
    inbox.show_read(shown, zone_of(params), **_ways(params))


def inbox_done(server: RemoteServer, params: Params) -> None:
    """Mark outcomes as done without showing them."""
    inbox.check_choice(params["ids"], every=params["every"])
    named = [_named(server, text) for text in params["ids"] or ()]
    answers = [server.post("/inbox/read", _marked(name)) for name in named]
    answers = answers or [server.post("/inbox/read", {"all": True})]
    inbox.show_done({**answers[-1], "done": sum(each["done"] for each in answers)}, as_json=params["as_json"])


def _named(server: RemoteServer, text: str) -> str:
    if not text.startswith(MESSAGE_ID_PREFIX):
        return found_id(server, text)
    found = server.get("/inbox", task_id=text)["messages"]
    return inbox.meant_message(text, [message["id"] for message in found])


def _marked(name: str) -> Mapping[str, Any]:
    return {"ids": [name]} if name.startswith(MESSAGE_ID_PREFIX) else {"task_id": name}


def _ways(params: Params) -> dict[str, bool]:
    return {"as_json": params["as_json"], "as_csv": params["as_csv"]}


def _now() -> datetime:
    return datetime.now(UTC)


def stats(server: RemoteServer, params: Params) -> None:
    """Count waiting runs by tier, and show the use of pools."""
    pools.show_stats(server.get("/stats"), zone_of(params), _now(), as_json=params["as_json"])


def pools_list(server: RemoteServer, params: Params) -> None:
    """List the declared pools."""
    pools.show_pools(server.get("/pools"), as_json=params["as_json"])


def pools_set(server: RemoteServer, params: Params) -> None:
    """Create or change a pool."""
    asked = {"spec": pools.read_spec(params["spec"]), **reason_of(params)}
    pools.say_set(params["name"], server.send("PUT", f"/pools/{params['name']}", asked))


def pools_remove(server: RemoteServer, params: Params) -> None:
    """Remove a pool."""
    server.delete(f"/pools/{params['name']}", **reason_of(params))
    pools.say_removed(params["name"])


def keys_list(server: RemoteServer, params: Params) -> None:
    """List API keys."""
    found, tenant = server.get("/keys", tenant=params["tenant"]), params["tenant"]
    keys.show_keys(found, _now(), tenant, as_json=params["as_json"])


def keys_create(server: RemoteServer, params: Params) -> None:
    """Create an API key; its tenant and user are the caller's unless others are named."""
    parameters = {
        "name": params["name"],
        "expires": params["expires"],
        "scopes": list(map(_word, params["scope"] or ["tasks"])),
    }
    keys.show_new(
        server.post("/keys", parameters | _owner(params) | reason_of(params)), _now(), as_json=params["as_json"]
    )


def _owner(params: Params) -> dict[str, str]:
    return {name: params[name] for name in ("tenant", "user") if params[name] is not None}


def keys_revoke(server: RemoteServer, params: Params) -> None:
    """Revoke an API key."""
    if not params["key_id"] or params["tenant"]:
        raise InvalidArgument("key_id", "expected the id of one key", example="duetime keys revoke 7k3m9qx2w4hb")
    key_id = _key_id(server, params["key_id"])
    left = server.post(f"/keys/{key_id}/revoke", reason_of(params))["keys"]
    keys.say_revoked(key_id, next(key["name"] for key in left if key["id"] == key_id))


def keys_rotate(server: RemoteServer, params: Params) -> None:
    """Replace an API key."""
    body = {"overlap": params["overlap"], **reason_of(params)}
    new = server.post(f"/keys/{_key_id(server, params['key_id'])}/rotate", body)
    keys.show_new(new, _now(), as_json=params["as_json"])


def _key_id(server: RemoteServer, text: str) -> str:
    """Return the id of the key that a text means; the secret of a whole key must not be part of an address."""
    return keys.meant_key(text, lambda: [(it["id"], it["name"], it["state"]) for it in server.get("/keys")["keys"]])
