"""The verb `history`: what happened, with filters and pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, NamedTuple

import typer
from duetime.scheduler.events import EventFilter, EventKind, EventPage
from duetime.scheduler.history.events import EventGroup
from duetime.scheduler.history.runs import BucketWidth
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.task import Json, State
from duetime.server.cli import completion, output
from duetime.server.cli.completion import Label
from duetime.server.cli.formats import rows
from duetime.server.cli.formats.csv_table import write_csv
from duetime.server.cli.output import AsCsv, AsJson
from duetime.server.cli.past import count_tables
from duetime.server.cli.past.pages import MAX_SHORT_PAGES, PagePlace
from duetime.server.session import session
from duetime.tools.admin.event_filter import event_filter
from duetime.tools.admin.event_rows import buckets_json, counts_json
from duetime.widgets.history import NO_STEPS, history_payload, steps_of
from duetime.widgets.schema.history_parts import HistoryPart

TaskArgument = Annotated[
    str | None,
    typer.Argument(metavar="[ID]", help="only this task, with its attempts", autocompletion=completion.ids),
]
ActionOption = Annotated[
    str | None, typer.Option(help="only tasks with this action", autocompletion=completion.actions)
]

CountEventsBy = Annotated[EventGroup | None, typer.Option(help="count them by this, instead")]
EventWidth = Annotated[BucketWidth | None, typer.Option(help="count them by time and kind, instead")]


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
    tier: Annotated[str | None, typer.Option(help="only tasks of this tier")] = None,
    worker: Annotated[str | None, typer.Option(help="only runs with an attempt on this worker")] = None,
    min_attempts: Annotated[int | None, typer.Option(help="only runs with so many attempts")] = None,
    min_lateness: Annotated[str | None, typer.Option(help="only runs that ended so long after their deadline")] = None,
    min_cost: Annotated[str | None, typer.Option(help="only runs that cost so much at least: '0.50'")] = None,
    error: Annotated[str | None, typer.Option(help="only runs whose error contains this")] = None,
    text: Annotated[str | None, typer.Option(help="only events whose task or reason contains this")] = None,
    tenant: Annotated[str | None, typer.Option(help="the events of this tenant, or `*` for all")] = None,
    limit: Annotated[int, typer.Option(help="events per page, 1 to 100")] = 50,
    cursor: Annotated[str | None, typer.Option(help="the cursor that the previous page printed")] = None,
    count_by: CountEventsBy = None,
    bucket: EventWidth = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Show what happened to tasks, newest first: who did what, when and why."""
    bounds = EventBounds(since, until, tenant)
    of_task = {"state": state, "kind": kind, "actor": actor, "via": via, "action": action, "label": label, "tier": tier}
    spans = {"min_attempts": min_attempts, "min_lateness": min_lateness, "min_cost": min_cost}
    words = {**of_task, **spans, "worker": worker, "error": error, "text": text}
    with session(context).scheduler() as scheduler:
        task_id = scheduler.find(task_id) if task_id is not None else None
        where = event_filter(task_id=task_id, **words)
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
        counts = scheduler.event_counts(group, where, **bounds._asdict())
        count_tables.show_counts(counts_json(counts), "events", as_json=as_json, as_csv=as_csv)
    elif width is not None:
        found = scheduler.event_buckets(width, where, **bounds._asdict())
        count_tables.show_buckets(buckets_json(found), "events", as_json=as_json, as_csv=as_csv)


def _show_page(
    context: typer.Context, scheduler: Scheduler, where: EventFilter, bounds: EventBounds, at: PagePlace
) -> None:
    task_id, (limit, cursor) = where.task_id, at
    view = scheduler.get(task_id) if task_id is not None else None
    page = full_page(scheduler, where, bounds, limit, cursor)
    attempts = scheduler.attempts(task_id) if task_id is not None and cursor is None else []
    titles = scheduler.titles([event.task_id for event in page.events], tenant=bounds.tenant)
    zone = (view.record.task.timezone if view else scheduler.zone) or "UTC"
    past = history_payload(attempts, page.events, zone, steps=steps_of(view) if view else NO_STEPS)
    if context.params["as_json"]:
        output.as_json(_json(past, page, titles))
        return
    if context.params["as_csv"]:
        write_csv(rows.EVENT_COLUMNS, map(rows.event_cells, rows.events(past, page.events, titles)))
        output.say_next(context, page.cursor)
        return
    output.history_tables(past, page.events, zone, titles if task_id is None else None)
    output.events_window(page, zone)
    output.say_next(context, page.cursor)


def full_page(
    scheduler: Scheduler, where: EventFilter, bounds: EventBounds, limit: int, cursor: str | None
) -> EventPage:
    """Return a page that is short only at the end: whoever waits at a terminal wants rows, not cursors."""
    found = scheduler.history(where, limit=limit, cursor=cursor, **bounds._asdict())
    for _ in range(MAX_SHORT_PAGES):
        if found.cursor is None or len(found.events) == limit:
            break
        room = limit - len(found.events)
        following = scheduler.history(where, limit=room, cursor=found.cursor, **bounds._asdict())
        found = replace(following, events=(*found.events, *following.events))
    return found


def _json(past: HistoryPart, page: EventPage, titles: Mapping[str, str]) -> Json:
    attempts = past.model_dump(mode="json", by_alias=True, exclude_none=True)["attempts"]
    following = {"cursor": page.cursor} if page.cursor else {}
    events = rows.events(past, page.events, titles)
    return {"schema": "duetime.history/1", "attempts": attempts, "events": events, **following}
