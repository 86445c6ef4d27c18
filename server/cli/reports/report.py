"""The verb `report`: what was missed, how late, what it cost, and the trend."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Annotated

import typer
from duetime.scheduler.foresight.report_text import report_lines
from duetime.scheduler.history.work_report import ActionWork, WorkDone
from duetime.scheduler.intake.bounds import resolve_bound
from duetime.scheduler.rules.limits.price import money
from duetime.scheduler.rules.time import times
from duetime.scheduler.task import Json
from duetime.server.cli import output
from duetime.server.cli.output import AsJson
from duetime.server.session import session


def report(
    context: typer.Context,
    *,
    since: Annotated[str, typer.Option(help="from this time on: '7d', 'last monday'")] = "7d",
    tenant: Annotated[str | None, typer.Option(help="only the runs of this tenant")] = None,
    as_json: AsJson = False,
) -> None:
    """Report what was missed, how late, what it cost, the worst actions, and the trend."""
    settings = session(context).settings()
    zone = settings.timezone or "UTC"
    with session(context).store() as store:
        now = store.now()
        found = store.run_history.report(tenant, resolve_bound(since, now=now, zone=zone, argument="since"), now)
    if as_json:
        currency: dict[str, Json] = {"currency": settings.currency}
        output.as_json({"schema": "duetime.report/1", **currency, **_json(found.work), "before": _json(found.before)})
        return
    for line in report_lines(found, zone, settings.currency):
        output.say(line)


def _json(work: WorkDone) -> dict[str, Json]:
    actions: list[Json] = [_numbers(each) for each in work.actions]
    return {
        "since": times.utc(work.since),
        "until": times.utc(work.until),
        "at_least": work.at_least,
        "total": _numbers(work.total()),
        "actions": actions,
        "units": dict(work.units),
        "cost": money(work.cost),
    }


def _numbers(work: ActionWork) -> dict[str, Json]:
    spans = {name: value for name, value in asdict(work).items() if isinstance(value, timedelta)}
    counts: dict[str, Json] = {name: value for name, value in asdict(work).items() if name not in spans}
    return {**counts, **{f"{name}_seconds": value.total_seconds() for name, value in spans.items()}}
