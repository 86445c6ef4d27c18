"""The verb `logs`: what the handler of a run logged, also as it comes."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final

import typer
from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.ids import RUN_PREFIX
from duetime.server.cli import completion, output
from duetime.server.cli.exit_codes import NOT_FOUND_CODE, code_of
from duetime.server.session import session
from duetime.tools.admin.run_rows import log_json
from duetime.widgets.text.history_text import clock_time

LOG_FOLLOW_INTERVAL_S: Final = 1.0
MAX_PAGE_LINES: Final = 1_000

RunOrTask = Annotated[
    str,
    typer.Argument(metavar="ID", help="a run; or a task: its current or last run", autocompletion=completion.ids),
]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="go on until the run has ended")]
Tail = Annotated[int | None, typer.Option(help="only this many of the last lines")]
LogTenant = Annotated[str | None, typer.Option(help="of this tenant, or `*` for any")]
LogJson = Annotated[bool, typer.Option("--json", help="write a line of JSON for each, with its task, run and attempt")]

LogPage = dict[str, Any]
"""A page of a log, as JSON."""

LogRead = Callable[[str | None], LogPage]
"""Reads the page behind a place, or the first one."""


def logs(
    context: typer.Context,
    *,
    of: RunOrTask,
    follow: Follow = False,
    tail: Tail = None,
    tenant: LogTenant = None,
    as_json: LogJson = False,
) -> None:
    """Show what the handler of a run logged, oldest first."""
    with session(context).scheduler() as scheduler, named_log(of):
        run_id = of if of.startswith(RUN_PREFIX) else scheduler.tasks.find(of)

        def read(after: str | None) -> LogPage:
            newest = tail if after is None else None
            found = scheduler.past.run_log(run_id, after=after, newest=newest, limit=MAX_PAGE_LINES, tenant=tenant)
            return log_json(found)

        show(read, scheduler.zone or "UTC", follow=follow, as_json=as_json)


class LogNotFound(DuetimeError):
    """Neither a run nor a task of this tenant is meant."""

    code = "not_found"

    def __init__(self, text: str) -> None:
        super().__init__(
            f"no run or task {text[:40]!r}. `duetime runs` and `duetime list` show their ids.", argument="task_id"
        )


@contextmanager
def named_log(text: str) -> Iterator[None]:
    """Raise LogNotFound where what `text` names is not there, here or on another machine."""
    try:
        yield
    except DuetimeError as error:
        if code_of(error) != NOT_FOUND_CODE:
            raise
        raise LogNotFound(text) from None


def show(read: LogRead, zone: str, *, follow: bool, as_json: bool) -> None:
    """Write the lines of a log, and with `follow` those that come."""
    seen = 0
    for page in pages(read, follow=follow):
        if not seen and page.get("cut") and not as_json:
            output.note(f"{page['cut']} older lines were not kept.")
        for line in page["lines"]:
            seen += 1
            _write(page, line, zone, as_json=as_json)
        sys.stdout.flush()
    if not seen:
        output.note("Its handler logged nothing.")


def pages(read: LogRead, *, follow: bool, pause: Callable[[float], None] = time.sleep) -> Iterator[LogPage]:
    """Yield the pages of a log; one that says that the run has ended has its last lines."""
    place = None
    while True:
        page = read(place)
        yield page
        place = page["lines"][-1]["place"] if page["lines"] else place or "0.0"
        if page.get("more"):
            continue
        if page["ended"] or not follow:
            return
        pause(LOG_FOLLOW_INTERVAL_S)


def _write(page: LogPage, line: LogPage, zone: str, *, as_json: bool) -> None:
    if as_json:
        found = {"task": page["task_id"], "run": page["run_id"], **line}
        sys.stdout.write(json.dumps(found, ensure_ascii=False) + "\n")
        return
    first, *more = line["text"].split("\n")
    attempt = f"attempt {line['attempt']} "
    output.say(f"{clock_time(line['at'], zone)} {attempt}{line['level']} {line['logger']}: {first}")
    for text in more:
        output.say(f"    {text}")
