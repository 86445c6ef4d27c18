"""The verb `report`: what was missed, how late, what it cost, and the trend."""

from __future__ import annotations

from typing import Annotated

import typer
from duetime.scheduler.principal import ALL_TENANTS
from duetime.server.cli import output
from duetime.server.cli.order.decisions import json_of
from duetime.server.cli.output import AsJson
from duetime.server.rest.administration.report import report_payload
from duetime.server.session import session


def report(
    context: typer.Context,
    *,
    since: Annotated[str, typer.Option(help="from this time on: '7d', 'last monday'")] = "7d",
    tenant: Annotated[str | None, typer.Option(help="only the runs of this tenant")] = None,
    as_json: AsJson = False,
) -> None:
    """Report what was missed, how late, what it cost, the worst actions, and the trend."""
    with session(context).scheduler() as scheduler:
        found = scheduler.reports.work(since=since, tenant=tenant or ALL_TENANTS)
        payload = report_payload(found, scheduler.zone or "UTC", scheduler.reports.currency)
    if as_json:
        output.as_json(json_of(payload))
        return
    for line in payload.text:
        output.say(line)
