"""The verb that sends an event."""

from __future__ import annotations

from typing import Annotated

import typer
from duetime.server.cli import output
from duetime.server.cli.formats.option_values import read_object
from duetime.server.cli.output import AsJson
from duetime.server.session import cli_caller, session
from duetime.widgets.payload import as_json as dumped
from duetime.widgets.sent_event import SentEventPayload, sent_event_payload, sent_event_text

EventName = Annotated[str, typer.Argument(metavar="NAME", help="as tasks wait for it: order.paid")]
EventData = Annotated[str | None, typer.Option(metavar="JSON", help="what tasks compare and handlers get, an object")]
EventId = Annotated[str | None, typer.Option("--id", help="a second event with the same id does nothing")]


def send(
    context: typer.Context,
    name: EventName,
    *,
    data: EventData = None,
    event_id: EventId = None,
    as_json: AsJson = False,
) -> None:
    """Send an event: the tasks that wait for it continue."""
    given = read_object(data, "data")
    with session(context).scheduler() as scheduler:
        sent = scheduler.signals.send(name, given, event_id=event_id, by=cli_caller())
    show(sent_event_payload(sent), as_json=as_json)


def show(payload: SentEventPayload, *, as_json: bool) -> None:
    """Write what an event did."""
    if as_json:
        output.as_json(dumped(payload))
    else:
        output.say(sent_event_text(payload))
