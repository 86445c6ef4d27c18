"""The verb that sends an event, on another machine."""

from __future__ import annotations

from duetime.server.cli.formats.option_values import read_object
from duetime.server.cli.remote.client import RemoteServer
from duetime.server.cli.remote.tasks import Params
from duetime.server.cli.waits.events import show
from duetime.widgets.sent_event import SentEventPayload


def send(server: RemoteServer, params: Params) -> None:
    """Send an event."""
    given = {"name": params["name"], "data": read_object(params["data"], "data"), "id": params["event_id"]}
    sent = server.post("/events", {name: value for name, value in given.items() if value is not None})
    show(SentEventPayload.model_validate(sent), as_json=params["as_json"])
