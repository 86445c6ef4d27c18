"""The verb `cost`: what runs cost, by day or by another group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer
from duetime.scheduler.history.costs import CostGroup, CostLine, Costs
from duetime.scheduler.rules.limits.price import money
from duetime.scheduler.rules.time import times
from duetime.scheduler.task import Json
from duetime.server.cli import output
from duetime.server.cli.formats.csv_table import write_csv
from duetime.server.cli.output import AsCsv, AsJson
from duetime.server.session import session

COLUMNS = ("key", "title", "cost")
NOTHING = (
    "Nothing cost anything in this time. A pool with a price makes runs cost something: "
    """`duetime pools set tokens '{"kind": "budget", "capacity": 1000000, "price": "3.00 per 1000000"}'`."""
)


def cost(
    context: typer.Context,
    *,
    by: Annotated[CostGroup, typer.Option(help="add them up by this")] = CostGroup.DAY,
    since: Annotated[str, typer.Option(help="from this time on: '7d', 'last monday'")] = "30d",
    until: Annotated[str | None, typer.Option(help="before this time; by default now")] = None,
    tenant: Annotated[str | None, typer.Option(help="the runs of this tenant, or `*` for all")] = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Add up what runs cost, by the prices of the pools that they used."""
    with session(context).scheduler() as scheduler:
        found = scheduler.costs(by, since=since, until=until, tenant=tenant)
    rows = [_row(line) for line in found.lines]
    if as_json:
        output.as_json(_json(found, rows))
    elif as_csv:
        write_csv((*COLUMNS, "currency"), [{**row, "currency": found.currency} for row in rows])
    elif rows:
        show_costs(by, rows, f"{money(found.total)} {found.currency}")
        output.say_window("Costs", found.since, found.until, found.zone)
    else:
        output.say(NOTHING)


def show_costs(by: CostGroup, rows: Sequence[Mapping[str, Json]], total: str) -> None:
    """Write the table of costs, and their sum."""
    titled = by is CostGroup.TASK
    columns = (by.value.upper(), "TITLE", "COST") if titled else (by.value.upper(), "COST")
    shown = [(str(row["key"]), *([str(row.get("title") or "")] if titled else []), str(row["cost"])) for row in rows]
    output.table(columns, shown)
    output.say(f"Total: {total}")


def _row(line: CostLine) -> dict[str, Json]:
    title: dict[str, Json] = {"title": line.title} if line.title is not None else {}
    return {"key": line.key, **title, "cost": money(line.cost)}


def _json(found: Costs, rows: list[dict[str, Json]]) -> Json:
    return {
        "schema": "duetime.costs/1",
        "group": found.group.value,
        "currency": found.currency,
        "timezone": found.zone,
        "since": times.utc(found.since),
        "until": times.utc(found.until),
        "total": money(found.total),
        "costs": list(rows),
    }
