"""The verbs that list tasks: list and failed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer
from duetime.scheduler.history.runs import RunFilter
from duetime.scheduler.rules.retry import attempt_in_words
from duetime.scheduler.rules.series.overtake import is_stopping
from duetime.scheduler.rules.states import FAILURES, OPEN, blocked_by, only_failures
from duetime.scheduler.rules.time import times
from duetime.scheduler.task import State
from duetime.scheduler.views import Standing, TaskFilter, TaskPage, TaskView
from duetime.server.cli import completion, output
from duetime.server.cli.completion import Label
from duetime.server.cli.formats import rows
from duetime.server.cli.formats.csv_table import write_csv
from duetime.server.cli.output import AsCsv, AsJson
from duetime.server.cli.past import run_table
from duetime.server.cli.past.run_table import RunBounds, RunPlace
from duetime.server.session import session
from duetime.tools.arguments.filters import parts_of
from duetime.widgets.payload import due
from duetime.widgets.quote import cut
from duetime.widgets.text.list_text import CUT, clash_line, counts_in_words
from rich.text import Text

NO_TASKS = "No tasks. Create one: duetime schedule 'Call John' --when 'in 20 min'"
NO_MATCH = "No task matches this filter; `duetime list` without a filter lists all."
MAX_REASON_CHARS = 200
NO_FAILURE = "No task failed when it last ran."

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
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """List tasks: open ones by time, then those that ended; with an end to come, every occurrence until then."""
    with session(context).scheduler() as scheduler:
        where = TaskFilter(**parts_of(state), label=label, query=query)
        page = scheduler.list(where, after=after, before=before, limit=limit, cursor=cursor)
    _answer(context, page, as_json=as_json, as_csv=as_csv)


def failed(
    context: typer.Context,
    *,
    label: Label = None,
    query: Query = None,
    since: Annotated[str | None, typer.Option(help="every run that failed from this time on: 'last night'")] = None,
    until: Annotated[str | None, typer.Option(help="every run that failed before this time")] = None,
    limit: Limit = 20,
    cursor: Cursor = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """List tasks whose last run failed, newest first, and why; with a time, every run that failed then."""
    with session(context).scheduler() as scheduler:
        if since is not None or until is not None:
            ended = RunFilter(states=tuple(sorted(FAILURES)), label=label, text=query)
            run_table.page(context, scheduler, ended, RunBounds(since, until), RunPlace(limit, cursor))
            return
        where = TaskFilter((State.FAILED,), label=label, query=query)
        page = scheduler.list(where, limit=limit, cursor=cursor)
    _answer(context, page, as_json=as_json, as_csv=as_csv)


def _answer(context: typer.Context, page: TaskPage, *, as_json: bool, as_csv: bool) -> None:
    if as_json:
        output.as_json(rows.listed(page))
    elif as_csv:
        write_csv(rows.TASK_COLUMNS, map(rows.task_cells, rows.listed(page)["tasks"]))
        output.say_next(context, page.cursor)
    else:
        _show_page(context, page)


def _show_page(context: typer.Context, page: TaskPage) -> None:
    if page.views:
        show = _show_failures if only_failures(page.where.states) else _show_tasks
        show(page)
    if page.views or any(page.counts.values()):
        output.say(counts_in_words(page, spoken=False))
    else:
        output.say(_nothing(page.where))
    if page.overdue:
        output.say(f"{page.overdue}.")
    for clash in page.clashes:
        output.say(clash_line(clash, page.now or clash.at))
    if not page.complete:
        output.note(CUT)
    output.say_window("Due", page.where.after, page.where.before, page.zone)
    output.say_next(context, page.cursor)


def _nothing(where: TaskFilter) -> str:
    if where == TaskFilter():
        return NO_TASKS
    return NO_FAILURE if where == TaskFilter((State.FAILED,)) else NO_MATCH


def _show_tasks(page: TaskPage) -> None:
    """Show tasks, each in its own zone; where one is blocked or unverified, why."""
    reasons = [_reason(view) for view in page.views]
    why = ("WHY",) if any(reasons) else ()
    columns = ("ID", "WHEN", "", "STATE", "TITLE", *why, "ACTION", "REPEATS", "LABELS")
    shown = (_task(view, (reason,) if why else ()) for view, reason in zip(page.views, reasons, strict=True))
    output.table(columns, shown, spare=("LABELS", "REPEATS", "ACTION", ""))


def _reason(view: TaskView) -> str:
    """Return what a blocked task misses, or in what the last run of one did not give what is expected."""
    last = view.record.last_run
    return cut(blocked_by(view.record.run) or (last.unverified if last else None) or "", MAX_REASON_CHARS)


def _task(view: TaskView, why: Sequence[str]) -> Sequence[str | Text]:
    task, run = view.record.task, view.record.run
    return (
        task.id,
        _time(due(run), task.timezone),
        times.relative(due(run), view.now),
        _state(view),
        task.title,
        *why,
        task.action,
        "yes" if task.repeat else "",
        ", ".join(task.labels),
    )


def _state(view: TaskView) -> Text:
    task, run = view.record.task, view.record.run
    damaged, stopping, blocked = bool(view.record.damage), run.state in OPEN and is_stopping(run), bool(blocked_by(run))
    word = output.state_word(run.state, paused=task.paused, damaged=damaged, stopping=stopping, blocked=blocked)
    if task.paused_until:
        return word.append(f" until {times.describe(task.paused_until, task.timezone)}")
    if run.unverified:
        return word.append(f", {Standing.UNVERIFIED}")
    return word.append(f", {attempt_in_words(run, task.retry)}") if run.state is State.RETRYING else word


def _show_failures(page: TaskPage) -> None:
    """Show why and when tasks failed, and when they run again."""
    output.table(
        ("ID", "TITLE", "ENDED", "", "ATTEMPTS", "WHY", "NEXT"),
        map(_failure, page.views),
        spare=("ATTEMPTS", "", "NEXT"),
    )


def _failure(view: TaskView) -> Sequence[str]:
    task, run, last = view.record.task, view.record.run, view.record.last_run or view.record.run
    return (
        task.id,
        task.title,
        _time(last.ended_at, task.timezone) if last.ended_at else "",
        times.relative(last.ended_at, view.now) if last.ended_at else "",
        str(last.attempt),
        cut(last.error or "", MAX_REASON_CHARS),
        f"{'paused, ' if task.paused else ''}{_time(due(run), task.timezone)}" if run.state in OPEN else "",
    )


def _time(instant: datetime, zone: str) -> str:
    return f"{times.describe(instant, zone)} {zone}"
