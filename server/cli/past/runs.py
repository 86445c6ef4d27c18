"""The verb `runs`: the history by run, with pages and counts."""

from __future__ import annotations

from typing import Annotated, Final

import typer
from duetime.scheduler.history.runs import BucketWidth, RunFilter, RunGroup
from duetime.scheduler.service.scheduler import Scheduler
from duetime.server.cli import completion
from duetime.server.cli.completion import Label
from duetime.server.cli.output import AsCsv, AsJson
from duetime.server.cli.past import run_table
from duetime.server.cli.past.count_tables import show_buckets, show_counts
from duetime.server.cli.past.pages import PagePlace
from duetime.server.cli.past.run_table import RunBounds
from duetime.server.session import session
from duetime.tools.admin import run_rows

TaskOption = Annotated[str | None, typer.Option(help="only runs of this task", autocompletion=completion.ids)]
StateOption = Annotated[
    str | None,
    typer.Option(
        metavar="STATE",
        help="only in these states: `failed,expired`, `open`",
        autocompletion=completion.states,
    ),
]
ActionFilter = Annotated[str | None, typer.Option(help="only of this action", autocompletion=completion.actions)]
PriorityFilter = Annotated[
    str | None,
    typer.Option("--priority", "--tier", help="only of this priority: critical, high, normal, low, background"),
]
WorkerFilter = Annotated[str | None, typer.Option(help="only with an attempt on this worker")]
ActorFilter = Annotated[str | None, typer.Option(help="only of this user's tasks, or changed by this user")]
TextFilter = Annotated[str | None, typer.Option(help="only with this in the title, the error or a reason")]
TitleFilter = Annotated[str | None, typer.Option(help="only with this in the title")]
ErrorFilter = Annotated[str | None, typer.Option(help="only with this in the error")]
SinceFilter = Annotated[str | None, typer.Option(help="from this time on: 'friday', 'last night', '12h'")]
UntilFilter = Annotated[str | None, typer.Option(help="before this time; by default what is due later is left out")]
MinDuration = Annotated[str | None, typer.Option(help="only those that took at least this long: '5 min'")]
MaxDuration = Annotated[str | None, typer.Option(help="only those that took at most this long")]
MinLateness = Annotated[
    str | None, typer.Option(help="only those that ended at least this long after their deadline: '0 s'")
]
MinDelay = Annotated[str | None, typer.Option(help="only those that started at least this long after they were due")]
MinAttempts = Annotated[int | None, typer.Option(help="only those with at least this many attempts")]
PoolFilter = Annotated[str | None, typer.Option(help="only those that used this pool", autocompletion=completion.pools)]
MinUnits = Annotated[
    float | None, typer.Option(help="only those that used at least this many units of it, or of all pools")
]
MinCost = Annotated[str | None, typer.Option(help="only those that cost so much at least: '0.50'")]
TenantFilter = Annotated[str | None, typer.Option(help="the runs of this tenant, or `*` for all")]
CountBy = Annotated[RunGroup | None, typer.Option(help="count them by this, instead")]
BucketOption = Annotated[BucketWidth | None, typer.Option(help="count them by time and state, instead")]
OldestFirst = Annotated[bool, typer.Option("--oldest-first", help="begin with the earliest time")]
RunLimit = Annotated[int, typer.Option(help="runs per page, 1 to 100")]
RunCursor = Annotated[str | None, typer.Option(help="the cursor that the previous page printed")]

RUN_FILTERS: Final = (
    *("state", "action", "priority", "label", "worker", "actor", "text", "title", "error", "pool"),
    *("min_attempts", "min_units", "min_cost", *run_rows.SPAN_ARGUMENTS),
)


def runs(
    context: typer.Context,
    *,
    task: TaskOption = None,
    state: StateOption = None,
    action: ActionFilter = None,
    priority: PriorityFilter = None,
    label: Label = None,
    worker: WorkerFilter = None,
    actor: ActorFilter = None,
    text: TextFilter = None,
    title: TitleFilter = None,
    error: ErrorFilter = None,
    since: SinceFilter = None,
    until: UntilFilter = None,
    min_duration: MinDuration = None,
    max_duration: MaxDuration = None,
    min_lateness: MinLateness = None,
    min_delay: MinDelay = None,
    min_attempts: MinAttempts = None,
    pool: PoolFilter = None,
    min_units: MinUnits = None,
    min_cost: MinCost = None,
    tenant: TenantFilter = None,
    count_by: CountBy = None,
    bucket: BucketOption = None,
    oldest_first: OldestFirst = False,
    limit: RunLimit = 20,
    cursor: RunCursor = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """List runs, newest first by default, or count them: when, what, on which worker, how long and why."""
    given, bounds = locals(), RunBounds(since, until, tenant)
    words = {name: given[name] for name in RUN_FILTERS}
    with session(context).scheduler() as scheduler:
        task_id = scheduler.tasks.find(task) if task is not None else None
        where = run_rows.run_filter(task_id=task_id, oldest_first=oldest_first, **words)
        if not _counted(scheduler, where, bounds, count_by, bucket, as_json=as_json, as_csv=as_csv):
            run_table.page(context, scheduler, where, bounds, PagePlace(limit, cursor))


def _counted(
    scheduler: Scheduler,
    where: RunFilter,
    bounds: RunBounds,
    group: RunGroup | None,
    width: BucketWidth | None,
    *,
    as_json: bool,
    as_csv: bool,
) -> bool:
    """Write the counts that are asked for; return whether any are."""
    how = {"as_json": as_json, "as_csv": as_csv}
    if group is not None:
        show_counts(run_rows.counts_json(scheduler.past.run_counts(group, where, **bounds._asdict())), "runs", **how)
    elif width is not None:
        show_buckets(run_rows.buckets_json(scheduler.past.run_buckets(width, where, **bounds._asdict())), "runs", **how)
    return bool(group or width)
