"""The verbs that list tasks: list and failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
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
from duetime.server.cli.past.pages import PagePlace
from duetime.server.cli.past.run_table import RunBounds
from duetime.server.session import session
from duetime.tools.arguments.filters import parts_of
from duetime.widgets.payload import due, task_payload
from duetime.widgets.quote import cut
from duetime.widgets.text.chain_text import progress_in_words
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
        named = {} if as_json or as_csv else {name.id: name for name in page.chains.values()}
        chains = {chain_id: scheduler.get(chain_id) for chain_id in named}
    _answer(context, page, as_json=as_json, as_csv=as_csv, chains=chains)


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
            run_table.page(context, scheduler, ended, RunBounds(since, until), PagePlace(limit, cursor))
            return
        where = TaskFilter((State.FAILED,), label=label, query=query)
        page = scheduler.list(where, limit=limit, cursor=cursor)
    _answer(context, page, as_json=as_json, as_csv=as_csv)


def _answer(
    context: typer.Context,
    page: TaskPage,
    *,
    as_json: bool,
    as_csv: bool,
    chains: Mapping[str, TaskView] = MappingProxyType({}),
) -> None:
    if as_json:
        output.as_json(rows.listed(page))
    elif as_csv:
        write_csv(rows.TASK_COLUMNS, map(rows.task_cells, rows.listed(page)["tasks"]))
        output.say_next(context, page.cursor)
    else:
        _show_page(context, page, chains)


def _show_page(context: typer.Context, page: TaskPage, chains: Mapping[str, TaskView]) -> None:
    if page.views and only_failures(page.where.states):
        _show_failures(page)
    elif page.views:
        _show_tasks(page, chains)
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


def _show_tasks(page: TaskPage, chains: Mapping[str, TaskView]) -> None:
    """Show tasks, each in its own zone, chains above their steps; where one is blocked or unverified, why."""
    views = _with_chains(page, chains)
    reasons = [_reason(view) for view in views]
    why = ("WHY",) if any(reasons) else ()
    columns = ("ID", "WHEN", "", "STATE", "TITLE", *why, "ACTION", "REPEATS", "LABELS")
    shown = (_task(view, (reason,) if why else ()) for view, reason in zip(views, reasons, strict=True))
    output.table(columns, shown, spare=("LABELS", "REPEATS", "ACTION", ""))


def _with_chains(page: TaskPage, chains: Mapping[str, TaskView]) -> list[TaskView]:
    """Return the tasks of a page, and each chain once, above the first of its steps on the page."""
    left, found = dict(chains), list[TaskView]()
    for view in page.views:
        name = page.chains.get(view.record.task.id)
        whole = left.pop(name.id, None) if name else None
        found += [whole, view] if whole else [view]
    return found


def _progress(view: TaskView) -> str:
    """Say how far a chain is in the place of its action."""
    part = task_payload(view).chain if view.chain else None
    return progress_in_words(part) if part else view.record.task.action


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
        _progress(view),
        "yes" if task.repeat else "",
        ", ".join(task.labels),
    )


def _state(view: TaskView) -> Text:
    task, run = view.record.task, view.record.run
    damaged, stopping, blocked = bool(view.record.damage), run.state in OPEN and is_stopping(run), bool(blocked_by(run))
    word = output.state_word(run.state, paused=task.paused, damaged=damaged, stopping=stopping, blocked=blocked)
    if task.paused_until:
        held = "" if word.plain == "paused" else ", paused"
        return word.append(f"{held} until {times.describe(task.paused_until, task.timezone)}")
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
