"""The verbs that send events and make addresses, on another machine."""

from __future__ import annotations

from duetime.server.cli.formats.option_values import read_object
from duetime.server.cli.remote.client import RemoteServer
from duetime.server.cli.remote.tasks import Params, found_id
from duetime.server.cli.waits.addresses import check_options, show_address, show_revoked
from duetime.server.cli.waits.events import show
from duetime.widgets.sent_event import SentEventPayload


def send(server: RemoteServer, params: Params) -> None:
    """Send an event."""
    given = {"name": params["name"], "data": read_object(params["data"], "data"), "event_id": params["event_id"]}
    sent = server.post("/events", {name: value for name, value in given.items() if value is not None})
    show(SentEventPayload.model_validate(sent), as_json=params["as_json"])


def address(server: RemoteServer, params: Params) -> None:
    """Make or revoke the address of a task."""
    check_options(renew=params["renew"], revoke=params["revoke"])
    task_id, as_json = found_id(server, params["task_id"]), params["as_json"]
    if params["revoke"]:
        found = server.post(f"/tasks/{task_id}/address/revoke", {})
        show_revoked(found["task_id"], revoked=found["revoked"], as_json=as_json)
        return
    made = server.post(f"/tasks/{task_id}/address", {"renew": params["renew"]})
    url = made.get("url") or f"{server.url.rstrip('/')}{made['path']}"
    show_address(made["task_id"], made["path"], url, as_json=as_json)
