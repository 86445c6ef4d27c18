"""The verb `alerts`: a table of alerts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import typer
from duetime.scheduler.rules.time import times
from duetime.server.cli import output
from duetime.server.cli.output import AsJson
from duetime.server.session import session
from duetime.tools.admin.alert_rows import alerts_json

UNWATCHED = (
    "No process watches for alerts: name the channels to tell in alert_channels (DUETIME_ALERT_CHANNELS) for "
    "`duetime serve` and `duetime worker`."
)


def alerts(context: typer.Context, *, as_json: AsJson = False) -> None:
    """List the alerts that fire, are pending, or ended in the last seven days."""
    settings = session(context).settings()
    with session(context).store() as store:
        now, found = store.now(), store.alerts.all()
    show_alerts(alerts_json(found, watched=bool(settings.alert_channels)), now, as_json=as_json)


def show_alerts(found: Mapping[str, Any], now: datetime, *, as_json: bool) -> None:
    """Write a list of alerts."""
    if as_json:
        output.as_json(dict(found))
        return
    if found["alerts"]:
        rows = (
            (each["state"], each["alert"], times.relative(datetime.fromisoformat(each["since"]), now), each["text"])
            for each in found["alerts"]
        )
        output.table(("STATE", "ALERT", "SINCE", "WHAT IT SAYS"), rows)
    elif found["watched"]:
        output.say("No alert fires, and none did in the last seven days.")
    if not found["watched"]:
        output.say(UNWATCHED)
