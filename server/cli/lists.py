"""The verbs that list tasks: list and failed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated

import typer
from duetime.scheduler.history.runs import RunFilter
from duetime.scheduler.rules.states import FAILURES
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskFilter, TaskPage
from duetime.server.cli import completion
from duetime.server.cli.completion import Label
from duetime.server.cli.formats.csv_pages import wants_every_page
from duetime.server.cli.formats.task_list import show_list, write_tasks
from duetime.server.cli.output import AsCsv, AsJson
from duetime.server.cli.past import run_table
from duetime.server.cli.past.pages import PageJson, PagePlace
from duetime.server.cli.past.run_table import RunBounds
from duetime.server.session import session
from duetime.tools.arguments.filters import parts_of
from duetime.widgets.formats.whole_list import whole_list_payload
from duetime.widgets.payload import as_json as as_dict
from duetime.widgets.payload import task_payload

Query = Annotated[str | None, typer.Option(help="only tasks whose title contains this")]
Limit = Annotated[int, typer.Option(help="tasks per page, 1 to 100")]
Cursor = Annotated[str | None, typer.Option(help="the cursor that the previous page printed")]


def list_(
    context: typer.Context,
    *,
    state: Annotated[
        str | None,
        typer.Option(
            metavar="STATE",
            help="only tasks in this state, or all that are `open` or `ended`",
            autocompletion=completion.states,
        ),
    ] = None,
    label: Label = None,
    query: Query = None,
    after: Annotated[str | None, typer.Option(help="only tasks due from this time on: 'friday' is the last")] = None,
    before: Annotated[str | None, typer.Option(help="only tasks due before this time: 'friday' is the next")] = None,
    limit: Limit = 20,
    cursor: Cursor = None,
    as_json: AsJson = False,  # noqa: ARG001 - read from the context
    as_csv: AsCsv = False,  # noqa: ARG001 - likewise
) -> None:
    """List tasks: open ones by time, then ended ones; with --before in the future, every occurrence up to it."""
    with session(context).scheduler() as scheduler:
        where = TaskFilter(**parts_of(state), label=label, query=query)
        _show(
            context,
            scheduler,
            partial(scheduler.tasks.list, where, after=after, before=before),
            PagePlace(limit, cursor),
        )


def failed(
    context: typer.Context,
    *,
    label: Label = None,
    query: Query = None,
    since: Annotated[str | None, typer.Option(help="every run that failed from this time on: 'last night'")] = None,
    until: Annotated[str | None, typer.Option(help="every run that failed before this time")] = None,
    limit: Limit = 20,
    cursor: Cursor = None,
    as_json: AsJson = False,  # noqa: ARG001 - read from the context
    as_csv: AsCsv = False,  # noqa: ARG001 - likewise
) -> None:
    """List tasks whose last run failed, newest first, and why; with a time, every run that failed then."""
    with session(context).scheduler() as scheduler:
        if since is not None or until is not None:
            ended = RunFilter(states=tuple(sorted(FAILURES)), label=label, text=query)
            run_table.page(context, scheduler, ended, RunBounds(since, until), PagePlace(limit, cursor))
            return
        where = TaskFilter((State.FAILED,), label=label, query=query)
        _show(context, scheduler, partial(scheduler.tasks.list, where), PagePlace(limit, cursor))


def _show(context: typer.Context, scheduler: Scheduler, pages: Callable[..., TaskPage], at: PagePlace) -> None:
    """Write the page that a verb's options ask for, or all of them."""

    def read(limit: int, cursor: str | None) -> PageJson:
        return as_dict(whole_list_payload(pages(limit=limit, cursor=cursor)))

    if wants_every_page(context):
        write_tasks(context, read)
        return
    page = pages(**at._asdict())
    found = as_dict(whole_list_payload(page))
    show_list(context, found, page.zone, lambda chain_id: task_payload(scheduler.get(chain_id)))
