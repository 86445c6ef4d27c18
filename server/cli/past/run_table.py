"""Runs as a table: when, what, how long, and why it failed; and where the log of a run is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

import typer
from duetime.scheduler.history.runs import RunFilter, RunPage, RunSummary
from duetime.scheduler.rules.limits.price import money
from duetime.scheduler.rules.states import FAILURES
from duetime.scheduler.rules.time import times
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.task import Json
from duetime.server.cli import output
from duetime.server.cli.formats.csv_table import write_csv
from duetime.tools.admin import run_rows
from duetime.widgets.quote import cut
from duetime.widgets.text.history_text import clock_time
from rich.text import Text

MAX_SHORT_PAGES = 200
"""Pages that are read for one full one: two million runs are compared then, and the rest is another command."""

MAX_WHY_CHARS = 200
COLUMNS = (
    *("id", "task_id", "tenant", "title", "action", "tier", "labels", "state", *run_rows.STANDINGS, "at"),
    *("scheduled_for", "started", "ended", "deadline", "seconds", "late_seconds", "attempts", "worker"),
    *("error", "why", "units", "cost"),
)
WHERE_LOGS_ARE = "Lines that the handler of a run logged: duetime logs"


class RunBounds(NamedTuple):
    """The times between which runs are asked for, in words, and their tenant."""

    since: str | None = None
    until: str | None = None
    tenant: str | None = None


class RunPlace(NamedTuple):
    """A page of runs: how many, and behind which place."""

    limit: int
    cursor: str | None


def full_page(scheduler: Scheduler, where: RunFilter, bounds: RunBounds, at: RunPlace) -> RunPage:
    """Return a page that is short only at the end: whoever waits at a terminal wants rows, not cursors."""
    found = scheduler.runs(where, **at._asdict(), **bounds._asdict())
    for _ in range(MAX_SHORT_PAGES):
        if found.cursor is None or len(found.runs) == at.limit:
            break
        room = at.limit - len(found.runs)
        following = scheduler.runs(where, limit=room, cursor=found.cursor, **bounds._asdict())
        found = replace(following, runs=(*found.runs, *following.runs))
    return found


def page(context: typer.Context, scheduler: Scheduler, where: RunFilter, bounds: RunBounds, at: RunPlace) -> None:
    """Write the page that a verb's options ask for, and how to get the next one."""
    given = context.params
    found = full_page(scheduler, where, bounds, at)
    zone = scheduler.zone or "UTC"
    if given["as_json"]:
        output.as_json(run_rows.page_json(found))
        return
    if given["as_csv"]:
        write_csv(COLUMNS, map(_cells, found.runs))
    elif found.runs:
        _table(found.runs, zone)
    else:
        output.say("No runs.")
    output.say_window("Runs", found.where.since, found.where.until, zone)
    output.say_next(context, found.cursor)


def note_cut(counted_to: datetime | None) -> None:
    """Say that a count does not have all runs."""
    if counted_to is not None:
        output.note(f"The newest runs alone, back to {times.utc(counted_to)}: give --since for all of a shorter time.")


def _table(found: Sequence[RunSummary], zone: str) -> None:
    cost = ("COST",) if any(run.cost is not None for run in found) else ()
    columns = (f"AT ({zone})", "STATE", "TITLE", "ACTION", "TOOK", *cost, "ATTEMPTS", "WORKER", "WHY", "TASK", "RUN")
    rows = (_row(run, zone, with_cost=bool(cost)) for run in found)
    output.table(columns, rows, spare=("TOOK", "ACTION", "WORKER"))
    failed = [run.id for run in found if run.state in FAILURES]
    if failed:
        output.note(f"{WHERE_LOGS_ARE} {failed[0]}")


def _row(run: RunSummary, zone: str, *, with_cost: bool) -> Sequence[str | Text]:
    return (
        clock_time(times.utc(run.at), zone),
        output.state_word(
            run.state, paused=run.paused, damaged=bool(run.damage), stopping=run.stopping, blocked=run.blocked
        ),
        run.title,
        run.action,
        "" if run.duration is None else times.length(run.duration),
        *([money(run.cost) if run.cost is not None else ""] if with_cost else []),
        str(run.attempt),
        run.worker or "",
        cut(run.error or run.why or "; ".join(run.damage), MAX_WHY_CHARS),
        run.task_id,
        run.id,
    )


def _cells(run: RunSummary) -> dict[str, Json]:
    row = run_rows.run_row(run)
    return {**row, "units": "; ".join(f"{pool}: {units:.12g}" for pool, units in run.units.items())}
