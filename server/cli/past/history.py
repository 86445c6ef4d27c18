"""The verb `history`: what happened, with filters and pages."""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

import typer
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.history.events import EventGroup
from duetime.scheduler.history.runs import BucketWidth
from duetime.scheduler.intake.validation import MAX_FILE_PAGE_ROWS, page_size
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.task import State
from duetime.server.cli import completion, output
from duetime.server.cli.completion import Label
from duetime.server.cli.formats.csv_pages import wants_every_page, write_every_page
from duetime.server.cli.output import AsCsv, AsJson
from duetime.server.cli.past import count_tables
from duetime.server.cli.past.history_table import EVENT_COLUMNS, event_cells, show_history, write_events
from duetime.server.cli.past.pages import PageJson, PagePlace, full_page
from duetime.server.rest.rows.events import events_json
from duetime.server.session import session
from duetime.tools.admin.event_filter import event_filter
from duetime.tools.admin.event_rows import buckets_json, counts_json
from duetime.tools.admin.run_rows import SPAN_ARGUMENTS
from duetime.widgets.schema.history_parts import AttemptPart

TaskArgument = Annotated[
    str | None,
    typer.Argument(metavar="[ID]", help="only this task, with its attempts", autocompletion=completion.ids),
]
ActionOption = Annotated[
    str | None, typer.Option(help="only tasks with this action", autocompletion=completion.actions)
]

CountEventsBy = Annotated[EventGroup | None, typer.Option(help="count them by this, instead")]
EventWidth = Annotated[BucketWidth | None, typer.Option(help="count them by time and kind, instead")]

EVENT_FILTERS: Final = (
    *("state", "kind", "actor", "via", "action", "priority", "label", "title", "text", "worker", "error"),
    *("min_attempts", "min_cost", *SPAN_ARGUMENTS),
)


class EventBounds(NamedTuple):
    """The times between which events are asked for, in words, and their tenant."""

    since: str | None
    until: str | None
    tenant: str | None


def history(
    context: typer.Context,
    *,
    task_id: TaskArgument = None,
    since: Annotated[str | None, typer.Option(help="from this time on: 'friday', 'last night', '12h'")] = None,
    until: Annotated[str | None, typer.Option(help="before this time")] = None,
    state: Annotated[State | None, typer.Option(help="only moves to this state")] = None,
    kind: Annotated[EventKind | None, typer.Option(help="only events of this kind")] = None,
    actor: Annotated[str | None, typer.Option(help="only changes by this user or worker")] = None,
    via: Annotated[str | None, typer.Option(help="only changes that came this way: `mcp`, `mcp 10.0.0.7`")] = None,
    action: ActionOption = None,
    label: Label = None,
    priority: Annotated[str | None, typer.Option("--priority", "--tier", help="only tasks of this priority")] = None,
    worker: Annotated[str | None, typer.Option(help="only runs with an attempt on this worker")] = None,
    min_attempts: Annotated[int | None, typer.Option(help="only runs with at least this many attempts")] = None,
    min_duration: Annotated[str | None, typer.Option(help="only runs that took at least this long: '5 min'")] = None,
    max_duration: Annotated[str | None, typer.Option(help="only runs that took at most this long")] = None,
    min_lateness: Annotated[str | None, typer.Option(help="only runs that ended at least this late")] = None,
    min_delay: Annotated[str | None, typer.Option(help="only runs that started at least this late")] = None,
    min_cost: Annotated[str | None, typer.Option(help="only runs that cost at least this much: '0.50'")] = None,
    error: Annotated[str | None, typer.Option(help="only runs whose error contains this")] = None,
    text: Annotated[str | None, typer.Option(help="only events whose task or reason contains this")] = None,
    title: Annotated[str | None, typer.Option(help="only tasks whose title contains this")] = None,
    tenant: Annotated[str | None, typer.Option(help="the events of this tenant, or `*` for all")] = None,
    limit: Annotated[int, typer.Option(help="events per page, 1 to 100")] = 50,
    cursor: Annotated[str | None, typer.Option(help="the cursor that the previous page printed")] = None,
    count_by: CountEventsBy = None,
    bucket: EventWidth = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Show what happened to tasks, newest first: who did what, when and why."""
    given, bounds = locals(), EventBounds(since, until, tenant)
    with session(context).scheduler() as scheduler:
        task_id = scheduler.tasks.find(task_id) if task_id is not None else None
        where = event_filter(task_id=task_id, **{name: given[name] for name in EVENT_FILTERS})
        if count_by is not None or bucket is not None:
            _count(scheduler, where, bounds, (count_by, bucket), as_json=as_json, as_csv=as_csv)
        else:
            _show_page(context, scheduler, where, bounds, PagePlace(limit, cursor))


def _count(
    scheduler: Scheduler,
    where: EventFilter,
    bounds: EventBounds,
    by: tuple[EventGroup | None, BucketWidth | None],
    *,
    as_json: bool,
    as_csv: bool,
) -> None:
    group, width = by
    if group is not None:
        counts = scheduler.past.event_counts(group, where, **bounds._asdict())
        count_tables.show_counts(counts_json(counts), "events", as_json=as_json, as_csv=as_csv)
    elif width is not None:
        found = scheduler.past.event_buckets(width, where, **bounds._asdict())
        count_tables.show_buckets(buckets_json(found), "events", as_json=as_json, as_csv=as_csv)


def _show_page(
    context: typer.Context, scheduler: Scheduler, where: EventFilter, bounds: EventBounds, at: PagePlace
) -> None:
    view = scheduler.get(where.task_id) if where.task_id is not None else None

    def read(limit: int, cursor: str | None) -> PageJson:
        page = scheduler.past.events(where, limit=limit, cursor=cursor, **bounds._asdict())
        found = events_json(scheduler, page, view, first=cursor is None, tenant=bounds.tenant)
        if cursor == at.cursor and not (context.params["as_json"] or context.params["as_csv"]):
            output.say_window("Events", page.where.since, page.where.until, str(found["timezone"]))
        return found

    if wants_every_page(context):
        write_every_page(context, read, "events", EVENT_COLUMNS, event_cells, page_rows=MAX_FILE_PAGE_ROWS)
    else:
        at = at._replace(limit=page_size(at.limit))
        show_page(context, full_page(read, "events", at), scheduler.zone or "UTC")


def show_page(context: typer.Context, page: PageJson, zone: str) -> None:
    """Write a page of events as the options of the verb ask for: of one task in its own zone, of many in `zone`."""
    if context.params["as_json"]:
        output.as_json(page)
        return
    if context.params["as_csv"]:
        write_events(page["events"])
    else:
        tried = [AttemptPart.model_validate(each) for each in page.get("attempts", ())]
        of_one = context.params["task_id"] is not None
        show_history(tried, page["events"], page["timezone"] if of_one else zone, titled=not of_one)
    output.say_next(context, page.get("cursor"))
