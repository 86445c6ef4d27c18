"""The verb `cost`: what runs cost, by day or by another group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any

import typer
from duetime.scheduler.history.costs import CostGroup
from duetime.scheduler.principal import ALL_TENANTS
from duetime.scheduler.rules.limits.price import money
from duetime.server.cli import output
from duetime.server.cli.formats.csv_table import write_csv
from duetime.server.cli.output import AsCsv, AsJson
from duetime.server.rest.rows.costs import costs_json
from duetime.server.session import session

_COLUMNS = ("key", "title", "cost", "currency", "timezone")
_NOTHING = (
    "Nothing cost anything in this time. A pool with a price makes runs cost something: "
    """`duetime pools set tokens '{"kind": "budget", "capacity": 1000000, "price": "3.00 per 1000000"}'`."""
)


def cost(
    context: typer.Context,
    *,
    by: Annotated[CostGroup, typer.Option(help="add them up by this")] = CostGroup.DAY,
    since: Annotated[str, typer.Option(help="from this time on: '7d', 'last monday'")] = "30d",
    until: Annotated[str | None, typer.Option(help="before this time; by default now")] = None,
    tenant: Annotated[
        str | None, typer.Option(help="the runs of this tenant, or `*` for all; by `tenant` of all if not given")
    ] = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Add up what runs cost, by the prices of the pools that they used."""
    if by is CostGroup.TENANT and tenant is None:
        tenant = ALL_TENANTS
    with session(context).scheduler() as scheduler:
        found = scheduler.reports.costs(by, since=since, until=until, tenant=tenant)
    show_costs(costs_json(found), as_json=as_json, as_csv=as_csv)


def show_costs(found: Mapping[str, Any], *, as_json: bool, as_csv: bool) -> None:
    """Write costs by group, and their sum."""
    rows: Sequence[Mapping[str, Any]] = found["costs"]
    if as_json:
        output.as_json(dict(found))
    elif as_csv:
        write_csv(_COLUMNS, [{**row, **{name: found[name] for name in ("currency", "timezone")}} for row in rows])
    elif rows:
        _table(found["group"], rows)
        output.say(f"Total: {found['total']} {found['currency']}")
        since, until = (datetime.fromisoformat(found[name]) for name in ("since", "until"))
        output.say_window("Costs", since, until, found["timezone"])
    else:
        output.say(_NOTHING)
    if rows and not as_json:
        _note_rest(found, rows)


def _note_rest(found: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    """Say what those cost that have no line."""
    rest = Decimal(found["total"]) - sum(Decimal(row["cost"]) for row in rows)
    if rest and found["group"] == CostGroup.LABEL:
        output.note("A run of a task with several labels counts for each of them, and in the total once.")
    elif rest:
        output.note(f"There are more than these {len(rows):,} lines. The rest cost {money(rest)} {found['currency']}.")


def _table(by: str, rows: Sequence[Mapping[str, Any]]) -> None:
    names = ("key", "title", "cost") if by == CostGroup.TASK else ("key", "cost")
    columns = (by.upper(), *(name.upper() for name in names[1:]))
    unnamed = "-" if by == CostGroup.LABEL else ""
    output.table(columns, ([row.get(name) or unnamed for name in names] for row in rows))
