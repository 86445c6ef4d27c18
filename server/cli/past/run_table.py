"""Runs as a table: when, what, how long, and why it failed; and where the log of a run is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import typer
from duetime.scheduler.history.runs import RunFilter
from duetime.scheduler.intake.validation import MAX_FILE_PAGE_ROWS, page_size
from duetime.scheduler.principal import ALL_TENANTS
from duetime.scheduler.rules.states import FAILURES
from duetime.scheduler.rules.time import times
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.task import State
from duetime.server.cli import output
from duetime.server.cli.formats.csv_pages import wants_every_page, write_every_page
from duetime.server.cli.formats.csv_table import write_csv
from duetime.server.cli.past.pages import PageJson, PagePlace, full_page
from duetime.tools.admin.run_rows import RUN_COLUMNS, page_json
from duetime.widgets.quote import cut
from duetime.widgets.text.history_text import clock_time
from rich.text import Text

MAX_TABLE_REASON_CHARS = 200
WHERE_LOGS_ARE = "Lines that the handler of a run logged: duetime logs"

RunInList = Mapping[str, Any]
"""A run, as `duetime.runs/1` has it."""


class RunBounds(NamedTuple):
    """The times between which runs are asked for, in words, and their tenant."""

    since: str | None = None
    until: str | None = None
    tenant: str | None = None


def page(context: typer.Context, scheduler: Scheduler, where: RunFilter, bounds: RunBounds, at: PagePlace) -> None:
    """Write the page that a verb's options ask for, and how to get the next one."""
    zone = scheduler.zone or "UTC"

    def read(limit: int, cursor: str | None) -> PageJson:
        found = scheduler.past.runs(where, limit=limit, cursor=cursor, **bounds._asdict())
        if cursor == at.cursor and not context.params["as_json"]:
            output.say_window("Runs", found.where.since, found.where.until, zone)
        return page_json(found, everywhere=bounds.tenant == ALL_TENANTS)

    if wants_every_page(context):
        write_every_page(context, read, "runs", RUN_COLUMNS, page_rows=MAX_FILE_PAGE_ROWS)
        return
    show_page(context, full_page(read, "runs", at._replace(limit=page_size(at.limit))), zone)


def show_page(context: typer.Context, found: PageJson, zone: str) -> None:
    """Write a page of runs as the options of a verb ask for, and how to get the next one."""
    if context.params["as_json"]:
        output.as_json(found)
        return
    if context.params["as_csv"]:
        write_csv(RUN_COLUMNS, found["runs"])
    elif found["runs"]:
        _table(found["runs"], zone)
    else:
        output.say("No runs.")
    output.say_next(context, found.get("cursor"))


def _table(found: Sequence[RunInList], zone: str) -> None:
    cost = ("COST",) if any("cost" in run for run in found) else ()
    columns = (f"AT ({zone})", "STATE", "TITLE", "ACTION", "TOOK", *cost, "ATTEMPTS", "WORKER", "WHY", "TASK", "RUN")
    rows = (_row(run, zone, with_cost=bool(cost)) for run in found)
    output.table(columns, rows, spare=("TOOK", "ACTION", "WORKER"))
    failed = [run["id"] for run in found if run["state"] in FAILURES]
    if failed:
        output.note(f"{WHERE_LOGS_ARE} {failed[0]}")


def _row(run: RunInList, zone: str, *, with_cost: bool) -> Sequence[str | Text]:
    took = run.get("duration_seconds")
    return (
        clock_time(run["at"], zone),
        output.state_of(State(run["state"]), run),
        run["title"],
        run["action"],
        "" if took is None else times.length(timedelta(seconds=took)),
        *([run.get("cost", "")] if with_cost else []),
        str(run["attempts"]),
        run.get("worker", ""),
        cut(run.get("error") or run.get("why") or "", MAX_TABLE_REASON_CHARS),
        run["task_id"],
        run["id"],
    )
