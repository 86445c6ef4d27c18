"""The verbs of the inbox: list, read and done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import typer
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.foresight.readers.inbox import MESSAGE_ID_PREFIX
from duetime.scheduler.rules.time import times
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.task import InboxMessage, State
from duetime.scheduler.views import HeldDeliveries
from duetime.server.cli import completion, output
from duetime.server.cli.formats.csv_table import write_csv
from duetime.server.cli.output import AsCsv, AsJson
from duetime.server.session import session
from duetime.widgets.formats.inbox import done_json, inbox_json
from duetime.widgets.quote import cut
from duetime.widgets.text.history_text import clock_time
from duetime.widgets.text.list_text import held_in_words, quiet_in_words
from duetime.widgets.text.unread_text import counted_in_words
from rich.text import Text

MAX_OUTCOME_CHARS = 200
_COLUMNS = ("at", "id", "task_id", "title", "state", "text")
_NOTHING = "Nothing is unread."

OutcomeLimit = Annotated[int, typer.Option(help="outcomes at most, 1 to 100")]
Ids = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[ID]...",
        help="tasks, or single outcomes by their own ids, which --json shows",
        autocompletion=completion.unread,
    ),
]


def list_(context: typer.Context, *, limit: OutcomeLimit = 20, as_json: AsJson = False, as_csv: AsCsv = False) -> None:
    """List the outcomes that are unread, newest first; reading a list marks none of them."""
    with session(context).scheduler() as scheduler:
        found, count = scheduler.inbox.unread(limit=limit), scheduler.inbox.unread_count()
        now, zone = scheduler.now(), scheduler.zone or "UTC"
        quiet, held = scheduler.inbox.quiet_count(), scheduler.inbox.held()
    show_inbox(inbox_json(found, count, quiet=quiet, held=held), zone, now, as_json=as_json, as_csv=as_csv)


def show_inbox(found: Mapping[str, Any], zone: str, now: datetime, *, as_json: bool, as_csv: bool) -> None:
    """Write the outcomes that are unread, and how many."""
    messages = found["messages"]
    if as_json:
        output.as_json(dict(found))
        return
    if as_csv:
        write_csv(_COLUMNS, messages)
        if found["unread_count"] > len(messages):
            output.note(_counted(found["unread_count"], len(messages)))
    elif messages:
        columns = (f"AT ({zone})", "", "TASK", "TITLE", "STATE", "TEXT")
        output.table(columns, (_row(each, zone, now) for each in messages), spare=("", f"AT ({zone})"))
        output.say(_counted(found["unread_count"], len(messages)))
    else:
        output.say(_NOTHING)
    if found.get("quiet_count"):
        output.note(f"{quiet_in_words(found['quiet_count'])} `duetime runs --since 24h` lists every run.")
    if found.get("held_until"):
        held = HeldDeliveries(found["held_count"], datetime.fromisoformat(found["held_until"]))
        output.note(held_in_words(held, zone))


def _row(message: Mapping[str, Any], zone: str, now: datetime) -> Sequence[str | Text]:
    return (
        clock_time(message["at"], zone),
        times.relative(datetime.fromisoformat(message["at"]), now),
        message["task_id"],
        message["title"],
        output.state_word(State(message["state"])),
        "" if message["text"] == message["title"] else cut(message["text"], MAX_OUTCOME_CHARS),
    )


def read(
    context: typer.Context, *, ids: Ids = None, limit: OutcomeLimit = 20, as_json: AsJson = False, as_csv: AsCsv = False
) -> None:
    """Show outcomes whole and mark them as read: those that are named, or the newest."""
    with session(context).scheduler() as scheduler:
        found = _found(scheduler, ids, limit)
        zone = scheduler.zone or "UTC"
        scheduler.inbox_changes.mark_read([each.id for each in found])
        count = scheduler.inbox.unread_count()
    show_read(inbox_json(found, count), zone, as_json=as_json, as_csv=as_csv)


def show_read(found: Mapping[str, Any], zone: str, *, as_json: bool, as_csv: bool) -> None:
    """Write outcomes whole, which are marked as read now."""
    if as_json:
        output.as_json(dict(found))
        return
    if as_csv:
        write_csv(_COLUMNS, found["messages"])
        return
    for each in found["messages"]:
        output.say(f"{clock_time(each['at'], zone)}  {each['task_id']}  {each['title']}: {each['state']}")
        for line in () if each["text"] == each["title"] else each["text"].splitlines():
            output.say(f"  {line}")
    count = found["unread_count"]
    output.say(_counted(count, 0) if found["messages"] or count else _NOTHING)


def done(
    context: typer.Context,
    *,
    ids: Ids = None,
    every: Annotated[bool, typer.Option("--all", help="all that are unread")] = False,
    as_json: AsJson = False,
) -> None:
    """Mark outcomes as done without showing them: those that are named, or all."""
    check_choice(ids, every=every)
    with session(context).scheduler() as scheduler:
        marked = scheduler.inbox_changes.mark_read() if every else _mark(scheduler, ids or ())
        count = scheduler.inbox.unread_count()
    show_done(done_json(marked, count), as_json=as_json)


def check_choice(ids: Sequence[str] | None, *, every: bool) -> None:
    """Refuse a command that does not say which outcomes it means. Raises InvalidArgument."""
    if bool(ids) is every:
        problem = "name outcomes or say --all, not both" if every else "name outcomes, or say --all"
        raise InvalidArgument("ID", problem, accepted="ids of tasks or of outcomes")


def show_done(found: Mapping[str, Any], *, as_json: bool) -> None:
    """Write how many outcomes were marked, and how many are left."""
    if as_json:
        output.as_json(dict(found))
    else:
        marked = found["done"]
        output.say(f"{marked} outcome{'' if marked == 1 else 's'} done. {_counted(found['unread_count'], 0)}")


def _mark(scheduler: Scheduler, ids: Sequence[str]) -> int:
    named = [_named(scheduler, text) for text in ids]  # all, before any of them is marked
    messages = [name for name in named if name.startswith(MESSAGE_ID_PREFIX)]
    tasks = [name for name in named if not name.startswith(MESSAGE_ID_PREFIX)]
    mark_read = scheduler.inbox_changes.mark_read
    return sum(mark_read(task_id=task) for task in tasks) + (mark_read(messages) if messages else 0)


def _found(scheduler: Scheduler, ids: Sequence[str] | None, limit: int) -> list[InboxMessage]:
    if not ids:
        return list(scheduler.inbox.unread(limit=limit))
    found = (each for text in ids for each in scheduler.inbox.unread(limit=limit, of=_named(scheduler, text)))
    return list({each.id: each for each in found}.values())


def _named(scheduler: Scheduler, text: str) -> str:
    """Return the id of the outcome or of the task that a text stands for. Raises TaskNotFound, OutcomeNotFound."""
    if not text.startswith(MESSAGE_ID_PREFIX):
        return scheduler.get(scheduler.tasks.find(text)).record.task.id
    return meant_message(text, [each.id for each in scheduler.inbox.unread(of=text)])


def meant_message(text: str, found: Sequence[str]) -> str:
    """Return the id of the outcome whose beginning a text is; `found` are the unread ones with it.

    Raises InvalidArgument where they are several.
    """
    if len(found) > 1:
        raise InvalidArgument("ID", f"{text!r} may be {', '.join(found[:5])}", accepted="the beginning of one id")
    return found[0] if found else text


def _counted(count: int, shown: int) -> str:
    if not shown:
        return f"{counted_in_words(count)} unread." if count else _NOTHING
    more = f", {counted_in_words(count - shown, count)} of them older than these" if count > shown else ""
    counted = f"{counted_in_words(count)} unread{more}."
    return f"{counted} `duetime inbox read` shows them whole, `duetime inbox done --all` marks them all."
